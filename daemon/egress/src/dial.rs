//! Looks up an allowed name and connects to one of its addresses, after checking each.

use crate::{
    address::{AddressError, AddressRules},
    limits::{Limits, MAX_ADDRESSES, MAX_RESOLVING, RESOLVER_THREADS},
    upstream::{OutwardStream, Upstream},
};
use palisade_egress_protocol::{
    THIS_HOST,
    host::{Host, HostName, Target},
};
use std::{
    fmt::Debug,
    fs::File,
    future::Future,
    io::{self, Read as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _},
    pin::Pin,
    sync::Arc,
};
use tokio::{
    net::{TcpStream, UdpSocket},
    sync::Semaphore,
    time::{Instant, timeout, timeout_at},
};

/// The addresses of a name, when they are there.
pub type Lookup = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Looks up names. Tests have their own.
pub trait Resolver: Debug + Send + Sync {
    /// Returns the addresses of a name.
    fn look_up(&self, name: &HostName) -> Lookup;
}

/// The host's own resolver, in a bounded number of threads.
#[derive(Debug)]
pub struct HostResolver(Arc<Semaphore>);

impl Default for HostResolver {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(RESOLVER_THREADS)))
    }
}

impl Resolver for HostResolver {
    fn look_up(&self, name: &HostName) -> Lookup {
        let (name, threads) = (name.clone(), self.0.clone());
        Box::pin(async move {
            let thread = threads.acquire_owned().await.map_err(io::Error::other)?;
            let find = move || {
                let found = look_up(&name);
                drop(thread);
                found
            };
            tokio::task::spawn_blocking(find).await.map_err(io::Error::other)?
        })
    }
}

/// Most bytes of the hosts file that are read.
const MAX_HOSTS: u64 = 4 * 1024 * 1024;

fn look_up(name: &HostName) -> io::Result<Vec<IpAddr>> {
    let mut hosts = String::new();
    match File::open("/etc/hosts") {
        Ok(file) => drop(file.take(MAX_HOSTS).read_to_string(&mut hosts)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listed = listed_in(&hosts, name);
    if !listed.is_empty() {
        return Ok(listed);
    }
    // The dot makes the name absolute: no search domain of the host is appended. The C library does
    // not find such names in the hosts file, which is why that was read above.
    let found = (format!("{name}."), 0).to_socket_addrs()?;
    Ok(found.map(|address| address.ip()).collect())
}

/// Returns the addresses of a name in the text of a hosts file.
fn listed_in(hosts: &str, name: &HostName) -> Vec<IpAddr> {
    let lines = hosts.lines().map(|line| line.split('#').next().unwrap_or_default());
    let of_name = lines.filter_map(|line| {
        let mut words = line.split_whitespace();
        let address = words.next()?.parse().ok()?;
        words.any(|word| word.eq_ignore_ascii_case(name.as_str())).then_some(address)
    });
    of_name.collect()
}

/// All addresses of a name together have the time of this many.
const DIALS: u32 = 3;

/// Why no connection was made to an allowed target.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    /// The name could not be looked up.
    #[error("{0} could not be looked up: {1}")]
    Lookup(HostName, #[source] io::Error),
    /// The name has no address.
    #[error("{0} has no address")]
    NoAddress(HostName),
    /// No address of the target may be dialled. The first one is named.
    #[error("{0} is not reachable from a session: {1}")]
    Address(Target, #[source] AddressError),
    /// No address of the target answered. The last error is named.
    #[error("{0} could not be reached: {1}")]
    Connect(Target, #[source] io::Error),
}

/// The way from the room to the network, which all sessions share.
#[derive(Debug, Clone)]
pub(crate) struct WayOut {
    pub(crate) resolver: Arc<dyn Resolver>,
    /// The operator's HTTP proxy.
    pub(crate) proxy: Option<Arc<Upstream>>,
    pub(crate) limits: Limits,
}

/// The way from a session to the network, with the addresses that it may lead to.
#[derive(Debug)]
pub(crate) struct Dialler {
    way_out: WayOut,
    rules: AddressRules,
    resolving: Arc<Semaphore>,
}

impl Dialler {
    pub(crate) fn new(way_out: WayOut, rules: AddressRules) -> Self {
        Self { way_out, rules, resolving: Arc::new(Semaphore::new(MAX_RESOLVING)) }
    }

    /// Connects to a target that the broker has allowed.
    pub(crate) async fn dial(
        &self,
        target: &Target,
    ) -> Result<(OutwardStream, SocketAddr), DialError> {
        if let Host::Name(name) = &target.host
            && name.as_str() == THIS_HOST
        {
            return self.dial_this_host(target).await;
        }
        let mut refused = None;
        let mut failed = None;
        let addresses = self.addresses(&target.host).await?;
        let longest = self.way_out.limits.dial;
        let deadline = Instant::now() + DIALS * longest;
        for address in addresses {
            let to = SocketAddr::new(address.to_canonical(), target.port);
            if let Err(error) = self.rules.check(to) {
                refused.get_or_insert(error);
                continue;
            }
            let is_own = match is_of_this_host(to).await {
                Ok(true) if !self.rules.names(to) => {
                    refused.get_or_insert(AddressError::ThisHost(to.ip()));
                    continue;
                }
                Ok(is_own) => is_own,
                Err(error) => {
                    failed = Some(error);
                    continue;
                }
            };
            let until = deadline.min(Instant::now() + longest);
            match timeout_at(until, self.connect(to, is_own)).await {
                Ok(Ok(stream)) => return Ok((stream, to)),
                Ok(Err(error)) => failed = Some(error),
                Err(_) => failed = Some(io::ErrorKind::TimedOut.into()),
            }
        }
        match (failed, refused) {
            (None, Some(error)) => Err(DialError::Address(target.clone(), error)),
            (failed, _) => {
                let failed = failed.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into());
                Err(DialError::Connect(target.clone(), failed))
            }
        }
    }

    /// Connects to a checked address: through the operator's proxy, unless it is this host's.
    async fn connect(&self, to: SocketAddr, is_own: bool) -> io::Result<OutwardStream> {
        let Some(upstream) = self.way_out.proxy.as_ref().filter(|_| !is_own) else {
            return TcpStream::connect(to).await.map(OutwardStream::Plain);
        };
        let proxy = &upstream.proxy.target;
        let addresses = match &proxy.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.way_out.resolver.look_up(name).await?,
        };
        let addresses = addresses.into_iter().take(MAX_ADDRESSES);
        let at: Vec<_> = addresses.map(|address| SocketAddr::new(address, proxy.port)).collect();
        let connected = upstream.connect(&at, to, &self.way_out.limits).await;
        connected.map_err(|error| {
            io::Error::new(error.kind(), format!("through the proxy {proxy}: {error}"))
        })
    }

    /// Connects to a port of this host that the profile lists. Its name is looked up nowhere.
    async fn dial_this_host(
        &self,
        target: &Target,
    ) -> Result<(OutwardStream, SocketAddr), DialError> {
        let to = self.rules.this_host(target.port);
        let to = to.map_err(|error| DialError::Address(target.clone(), error))?;
        let dialled = timeout(self.way_out.limits.dial, TcpStream::connect(to)).await;
        match dialled.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(stream) => Ok((OutwardStream::Plain(stream), to)),
            Err(error) => Err(DialError::Connect(target.clone(), error)),
        }
    }

    async fn addresses(&self, host: &Host) -> Result<Vec<IpAddr>, DialError> {
        let name = match host {
            Host::Address(address) => return Ok(vec![*address]),
            Host::Name(name) => name,
        };
        // A lookup that nobody waits for any more keeps its turn, because its thread goes on.
        let looked_up = async {
            let turns = self.resolving.clone();
            let turn = turns.acquire_owned().await.map_err(io::Error::other)?;
            let lookup = self.way_out.resolver.look_up(name);
            let found = tokio::spawn(async move {
                let found = lookup.await;
                drop(turn);
                found
            });
            found.await.map_err(io::Error::other)?
        };
        let found = timeout(self.way_out.limits.lookup, looked_up).await;
        let found = found.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let mut addresses = found.map_err(|error| DialError::Lookup(name.clone(), error))?;
        if addresses.is_empty() {
            return Err(DialError::NoAddress(name.clone()));
        }
        addresses.truncate(MAX_ADDRESSES);
        Ok(addresses)
    }
}

/// Returns `true` if an address belongs to this host. Nothing is sent.
async fn is_of_this_host(to: SocketAddr) -> io::Result<bool> {
    let (any, foreign): (IpAddr, IpAddr) = match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED.into(), FOREIGN_V4.into()),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED.into(), FOREIGN_V6.into()),
    };
    // A socket can be bound to addresses of this host only, unless root allows others, too
    // (`ip_nonlocal_bind`). Then an address is this host's if packets to it would come from it.
    if !can_be_bound(to.ip()).await? {
        return Ok(false);
    }
    if !can_be_bound(foreign).await? {
        return Ok(true);
    }
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(to).await?;
    Ok(socket.local_addr()?.ip() == to.ip())
}

/// Reserved addresses, which no host has.
const FOREIGN_V4: Ipv4Addr = Ipv4Addr::new(240, 0, 0, 1);
const FOREIGN_V6: Ipv6Addr = Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 1);

async fn can_be_bound(address: IpAddr) -> io::Result<bool> {
    match UdpSocket::bind((address, 0)).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => Ok(false),
        // The host has no IPv6.
        Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[path = "dial_tests.rs"]
mod tests;
