//! The object that is preloaded into a spare shell. It waits, before the shell's own `main`, until
//! the runner sends a command line, environment and standard streams. It puts them where the shell
//! would have found them after an ordinary `execve`, and returns.
//!
//! `build.rs` compiles this file to a shared object, which `src/spare.rs` contains. There is nothing
//! in it but the C library's system calls: it runs in the shell's process, after the dynamic linker
//! and before everything else. Runs in the cell, confined as every program is.
#![no_std]
#![allow(unsafe_code)]

use core::{
    ffi::{c_char, c_int, c_long, c_ulong, c_void},
    mem, ptr,
};

/// The socket to the runner.
const SOCKET: c_int = 3;

/// The descriptor of this object, by which the dynamic linker opened it.
const OBJECT: c_int = 4;

/// Most bytes of a message: the two lengths, the arguments, the environment. The same as in
/// `src/spare.rs`.
const MOST: usize = 64 * 1024;

/// The number of streams that come with a message.
const STREAMS: usize = 3;

/// The messages to the runner: the shell waits, or has taken its command.
const WAITING: u8 = b'w';
const TAKEN: u8 = b't';

/// The status of a shell that can not be a spare one. Nobody runs a command with it.
const UNUSABLE: c_int = 125;

const O_RDONLY: c_int = 0;
const PROT_READ_WRITE: c_int = 1 | 2;
const MAP_PRIVATE_ANONYMOUS: c_int = 0x02 | 0x20;
const MSG_NOSIGNAL: c_int = 0x4000;
const MSG_CMSG_CLOEXEC: c_int = 0x4000_0000;
const MSG_TRUNCATED: c_int = 0x20 | 0x08;
const PR_SET_MM: c_int = 35;
const PR_SET_MM_MAP: c_ulong = 14;

#[repr(C)]
struct IoVec {
    base: *mut c_void,
    length: usize,
}

#[repr(C)]
struct MessageHeader {
    name: *mut c_void,
    name_length: u32,
    vectors: *mut IoVec,
    vector_count: usize,
    control: *mut c_void,
    control_length: usize,
    flags: c_int,
}

/// One control message with the streams, as the kernel lays it out.
#[repr(C)]
struct Control {
    length: usize,
    level: c_int,
    kind: c_int,
    descriptors: [c_int; STREAMS + 1],
}

/// `struct prctl_mm_map`: where the kernel says that the parts of a process's memory are.
#[repr(C)]
struct MemoryMap {
    start_code: u64,
    end_code: u64,
    start_data: u64,
    end_data: u64,
    start_brk: u64,
    brk: u64,
    start_stack: u64,
    arg_start: u64,
    arg_end: u64,
    env_start: u64,
    env_end: u64,
    auxv: *const u64,
    auxv_size: u32,
    exe_fd: u32,
}

unsafe extern "C" {
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn read(fd: c_int, buffer: *mut c_void, count: usize) -> isize;
    fn send(fd: c_int, buffer: *const c_void, count: usize, flags: c_int) -> isize;
    fn recvmsg(fd: c_int, message: *mut MessageHeader, flags: c_int) -> isize;
    fn dup2(from: c_int, to: c_int) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn mmap(at: *mut c_void, length: usize, prot: c_int, flags: c_int, fd: c_int, offset: c_long)
    -> *mut c_void;
    fn sbrk(increment: isize) -> *mut c_void;
    fn prctl(option: c_int, ...) -> c_int;
    fn _exit(status: c_int) -> !;
}

/// The dynamic linker calls this with the arguments of `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: unsafe extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) = wait;

/// Waits for the command, and puts it in place.
///
/// # Safety
/// `argv` and `envp` are the arrays of this process, which end with a null pointer, and nobody has
/// read them yet.
unsafe extern "C" fn wait(argc: c_int, argv: *mut *mut c_char, envp: *mut *mut c_char) {
    // SAFETY: the arrays are as the caller says; everything else is this function's own.
    unsafe {
        let mapped = mmap(ptr::null_mut(), MOST, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0);
        let Some(mut map) = memory_map() else { _exit(UNUSABLE) };
        // With the values that it has already: a trial whether the kernel and the filter let it.
        if argc != 3 || mapped as isize == -1 || !set_memory_map(&map) || !tell(WAITING) {
            _exit(UNUSABLE);
        }
        let buffer = mapped.cast::<u8>();
        let mut vector = IoVec { base: mapped, length: MOST };
        let mut control: Control = mem::zeroed();
        let mut message: MessageHeader = mem::zeroed();
        message.vectors = &raw mut vector;
        message.vector_count = 1;
        message.control = (&raw mut control).cast();
        message.control_length = size_of::<Control>();
        let length = recvmsg(SOCKET, &raw mut message, MSG_CMSG_CLOEXEC);
        let whole = message.flags & MSG_TRUNCATED == 0;
        let expected = mem::offset_of!(Control, descriptors) + STREAMS * size_of::<c_int>();
        if length < 8 || !whole || control.length != expected {
            _exit(UNUSABLE);
        }
        let arguments = buffer.cast::<u32>().read_unaligned() as usize;
        let environment = buffer.add(4).cast::<u32>().read_unaligned() as usize;
        if 8 + arguments + environment != length as usize {
            _exit(UNUSABLE);
        }
        let first = buffer.add(8);
        let split = first.add(arguments);
        let end = split.add(environment);
        let slots = count(envp);
        if !place(first, split, argv, 3) || !place(split, end, envp, slots) {
            _exit(UNUSABLE);
        }
        (map.arg_start, map.arg_end) = (first as u64, split as u64);
        (map.env_start, map.env_end) = (split as u64, end as u64);
        let mut descriptors = control.descriptors.into_iter().take(STREAMS);
        let placed = (0..).zip(&mut descriptors).all(|(number, fd)| {
            let placed = dup2(fd, number) == number;
            placed && close(fd) == 0
        });
        if !placed || !set_memory_map(&map) || !tell(TAKEN) {
            _exit(UNUSABLE);
        }
        close(SOCKET);
        close(OBJECT);
    }
}

/// Counts the pointers of an array before its null pointer.
///
/// # Safety
/// The array ends with a null pointer.
unsafe fn count(array: *mut *mut c_char) -> usize {
    let mut count = 0;
    // SAFETY: nothing behind the null pointer is read.
    while unsafe { !(*array.add(count)).is_null() } {
        count += 1;
    }
    count
}

/// Fills an array with pointers to the strings from `at` to `end`, and ends it with a null pointer.
/// Returns false if they do not fit, or if the last one has no end.
///
/// # Safety
/// The array has space for `most` pointers and the null pointer; `at` to `end` can be read.
unsafe fn place(at: *mut u8, end: *mut u8, array: *mut *mut c_char, most: usize) -> bool {
    let (mut at, mut number) = (at, 0);
    while at < end {
        if number == most {
            return false;
        }
        // SAFETY: `number` is below `most`, and `at` below `end`.
        unsafe {
            *array.add(number) = at.cast();
            while at < end && *at != 0 {
                at = at.add(1);
            }
        }
        if at == end {
            return false;
        }
        // SAFETY: it is at most `end`.
        at = unsafe { at.add(1) };
        number += 1;
    }
    // SAFETY: there is space for the null pointer.
    unsafe { *array.add(number) = ptr::null_mut() };
    true
}

fn tell(what: u8) -> bool {
    // SAFETY: one byte is read from a local variable.
    unsafe { send(SOCKET, (&raw const what).cast(), 1, MSG_NOSIGNAL) == 1 }
}

fn set_memory_map(map: &MemoryMap) -> bool {
    // SAFETY: the kernel reads a `prctl_mm_map`, which `map` is, and changes no memory.
    unsafe {
        let (map, size) = (ptr::from_ref(map), size_of::<MemoryMap>() as c_ulong);
        prctl(PR_SET_MM, PR_SET_MM_MAP, map, size, 0 as c_ulong) == 0
    }
}

/// Reads the present values from `/proc/self/stat`.
fn memory_map() -> Option<MemoryMap> {
    let mut text = [0_u8; 1024];
    // SAFETY: the path is a C string, and the kernel writes at most as many bytes as the buffer has.
    let length = unsafe {
        let file = open(c"/proc/self/stat".as_ptr(), O_RDONLY);
        if file < 0 {
            return None;
        }
        let length = read(file, text.as_mut_ptr().cast(), text.len());
        close(file);
        usize::try_from(length).ok()?
    };
    let text = text.get(..length)?;
    // The second field is a name in parentheses, which may contain anything.
    let name_end = text.iter().rposition(|byte| *byte == b')')?;
    let mut fields = text.get(name_end + 2..)?.split(|byte| *byte == b' ');
    // The fields are numbered as in proc(5); the first one after the name is 3.
    let mut last = 2;
    let mut field = |number: usize| {
        let found = fields.nth(number - last - 1)?;
        last = number;
        found.iter().try_fold(0_u64, |sum, byte| {
            let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
            sum.checked_mul(10)?.checked_add(digit)
        })
    };
    let (start_code, end_code, start_stack) = (field(26)?, field(27)?, field(28)?);
    let (start_data, end_data, start_brk) = (field(45)?, field(46)?, field(47)?);
    let (arg_start, arg_end) = (field(48)?, field(49)?);
    let (env_start, env_end) = (field(50)?, field(51)?);
    // SAFETY: an increment of 0 changes nothing.
    let brk = unsafe { sbrk(0) } as u64;
    Some(MemoryMap {
        start_code,
        end_code,
        start_data,
        end_data,
        start_brk,
        brk,
        start_stack,
        arg_start,
        arg_end,
        env_start,
        env_end,
        auxv: ptr::null(),
        auxv_size: 0,
        exe_fd: u32::MAX,
    })
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: it touches no memory.
    unsafe { _exit(UNUSABLE) }
}
