// Passes HTTP requests on to a server and adds its token, for clients that can not send one.
//   node bearer.mjs PORT TOKEN     prints the port that it listens on
import http from "node:http";

const [port, token] = process.argv.slice(2);
const proxy = http.createServer((request, reply) => {
  const headers = { ...request.headers, authorization: `Bearer ${token}` };
  const options = { host: "127.0.0.1", port, path: request.url, method: request.method, headers };
  const onward = http.request(options, (answer) => {
    reply.writeHead(answer.statusCode, answer.headers);
    reply.flushHeaders();
    answer.pipe(reply);
  });
  onward.on("error", () => reply.destroy());
  reply.on("close", () => onward.destroy());
  request.pipe(onward);
});
proxy.listen(0, "127.0.0.1", () => console.log(proxy.address().port));
