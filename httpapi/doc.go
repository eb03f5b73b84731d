// Package httpapi serves three documented HTTP APIs over a [sandbox.Manager].
// They are three ways to say the same thing: what a command does, how it ends and
// what is killed is decided in package sandbox.
//
//	h := httpapi.New(manager, &httpapi.Options{
//		Authenticate: httpapi.BearerKeys(map[string]string{key: "account-1"}),
//	})
//	h.Register(mux)
//
// # Routes
//
//	POST   /api/rooms/{roomID}/sandbox/exec           run a command in the room's sandbox
//	DELETE /api/rooms/{roomID}                        remove the room's sandbox
//
//	POST   /v1/sandboxes                              make a sandbox
//	GET    /v1/sandboxes                              list the account's sandboxes
//	GET    /v1/sandboxes/{id}                         one of them
//	DELETE /v1/sandboxes/{id}                         remove it
//	POST   /v1/sandboxes/{id}/exec                    run a command, as JSON, as a stream of events, or in the background
//	GET    …/{id}/executions                          what ran and runs there, oldest first
//	GET    …/{id}/executions/{exec_id}                one of them
//	DELETE …/{id}/executions/{exec_id}                cancel it
//	GET    …/{id}/executions/{exec_id}/stream         follow its output, from any offset
//	POST   …/{id}/executions/{exec_id}/stdin          write to it
//	POST   …/{id}/executions/{exec_id}/signal         signal it
//	GET    …/{id}/egress                              what has tried to get out, oldest first
//	GET    …/{id}/terminal                            run a command on a terminal, over a WebSocket
//	POST   …/{id}/terminal/tickets                    a ticket for a browser to open one
//	GET    …/{id}/files                               read a file, list a directory
//	PUT    …/{id}/files                               write a file
//	DELETE …/{id}/files                               remove a file or a directory
//	POST   …/{id}/files/mkdir                         make a directory
//	POST   …/{id}/files/rename                        move a file or a directory
//	GET    …/{id}/files/archive                       a tree as tar
//	PUT    …/{id}/files/archive                       a tree from tar
//	POST   …/{id}/ports                               a URL of a TCP port
//	any    …/{id}/ports/{port}/{token}/…              that URL
//
//	POST   /agents/{agentId}/sandbox/exec             run a command in the agent's sandbox
//	GET    …/{agentId}/sandbox/exec/{handle}          read on
//	DELETE …/{agentId}/sandbox/exec/{handle}          kill it
//	POST   …/{agentId}/sandbox/exec/{handle}/stdin    write to it
//	POST   …/{agentId}/sandbox/read                   read a file
//	POST   …/{agentId}/sandbox/write                  write a file
//
// The OpenAPI document that [OpenAPI] serves has every parameter, property and status
// code of them.
//
// [Handlers.Rooms], [Handlers.Sandboxes] and [Handlers.Agents] are plain handlers,
// each for one API. They look at the escaped path of the request, which must begin
// with the documented prefix (/api/rooms, /v1/sandboxes, /agents): to serve them
// below another path, take that path away with [http.StripPrefix]. They need
// nothing of a mux. Each answers everything below its prefix, also what does not
// exist, in JSON.
//
// A room's or agent's id is any one path segment of up to 1,024 bytes of UTF-8
// without NUL, once unescaped. It names a sandbox in the Manager and nothing
// else: no file, no container.
//
// # In all three
//
// A sandbox belongs to the owner that [Options.Authenticate] names, and to the API
// that made it. The same name under another owner, or in another API, is another
// sandbox.
//
// Bodies are read whole, up to 8 MiB (more is a 413), before anything is started.
// They are one JSON object, whatever the content type says; a byte order mark before it
// is ignored (RFC 8259, 8.1). Property names are
// case-sensitive, unknown ones are ignored, a known one given twice is a 400, and
// so is what is not Unicode: invalid UTF-8 or half of a surrogate pair, and a body of
// more than 65,536 values. A command is at most 1 MiB, its environment what Linux takes:
// 128 KiB a variable and 1.9 MiB in all. What is malformed makes no sandbox and starts nothing. Only the
// bytes of files, archives and input, where they are the body themselves, may be of any
// size: they are passed on as they come.
//
// An archive that breaks off while it is sent is not cut: the trailer Sandbox-Error says
// why it is not complete, and what comes last makes a tar program fail. The log says it too.
//
// Output is text in JSON, with U+FFFD for what is not UTF-8.
//
// JSON is encoded as it is sent, from where the output is stored, so an answer takes no
// memory beyond that. The server's WriteTimeout is lifted while a command runs, and its
// ReadTimeout while such bytes come. An answer may take as long as the client takes 32 KiB
// of it within 30 s; one that does not is cut off, and the log says how many bytes it got.
// Streams need a ResponseWriter that [http.ResponseController] can flush.
//
// # Where the documents are silent
//
// Rooms: a call is over when the command itself exits (sandbox.WaitExit), or after
// 5 minutes, which is a 200 with exitCode 124. The result also has success,
// exitCode, command, duration (milliseconds) and timestamp; and truncated, when a stream
// had more than the 1 MiB that is stored, with stdoutBytes and stderrBytes, how many there
// were in all. Bodies of 401, 404, 405
// and 413 are {"error": …}; a 405 has an Allow header. Malformed JSON is a 400. A
// command that is cancelled because its sandbox is removed is a 500. DELETE answers
// {"success":true,"sandboxName":…}, also when there was no sandbox. The endpoint
// /message is not this package's: mount it on the mux as POST
// /api/rooms/{roomID}/message, which wins over the prefix.
//
// Sandboxes: a call is over when nothing that the command started holds its output
// any more (sandbox.WaitOutput). timeout_ms is 1 to 600,000 and 60,000 by default.
// POST /v1/sandboxes answers 201. Its size is small (the default), medium or
// large; timeout_minutes is 15 to 1,440, by default the lifetime that
// [Options.NewSandbox] gives, or else 60, and never more than that lifetime. DELETE
// answers with the sandbox as it then is. A client that leaves ends a streamed
// execution; an unstreamed one runs to its end and is recorded. Types of errors
// are invalid_request, too_large, unauthorized, insufficient_credit, forbidden,
// not_found, conflict, rate_limited, unavailable and internal.
//
// Lists are whole unless limit (1 to 1,000) bounds them; after is the id of the item
// before the page. Items are in the order in which they were made, so pages do not
// shift; an id that is not in the list any more is a 400.
//
// With background, exec answers 202 with the running record. Only its timeout, of up to
// 24 h and by default none, and the end of the sandbox end such a command. It keeps the
// sandbox from being idle. With open_stdin the input stays open for …/stdin. While the
// sandbox remembers an execution of the same Idempotency-Key, that one is the answer,
// whatever the body says, and nothing is started.
//
// …/stdin?close=true ends the input after the body. On a terminal it types the eof
// character; a terminal that is not in canonical mode, or has no such character, is hung
// up.
//
// Every event of a stream has an id, OUT-ERR: how many bytes of each stream it and those
// before it have told, up to the last whole character. It comes after the data. No line is
// longer than 32 KiB, but for that of exit, which has the whole record. With
// "encoding":"base64" (of …/stream, ?encoding=base64) the events of output have its exact
// bytes: of a binary they take a quarter of what text does. …/stream goes on from there, by
// Last-Event-ID or ?offset=; leaving it ends nothing. An EventSource connects again
// whenever a stream ends, and gets exit again then: close it on exit and on error. Output that is not stored is told
// as an event gap, {"stream":…,"bytes":…,"offset":…}, whose offset is where the stream
// goes on.
//
// A file's content is text; "lossy":true says that its bytes are not UTF-8, and
// ?encoding=base64 and ?raw=true give them exactly. One JSON answer holds 16 MiB (more
// is a 413: ask by offset and limit), one list 10,000 entries. PUT makes the directories
// that are missing; with ?path= the body is the content itself. A file that is replaced
// keeps its mode, unless one is given.
//
// A terminal's WebSocket has what is typed and printed as binary messages, and JSON as
// text messages: {"type":"resize","cols":…,"rows":…} from the client; start, gap, exit
// or error from the service, the last of which says how it ended. A client that leaves
// ends the command, unless keep=true. Browsers send no header with a WebSocket: a ticket
// opens one terminal, once, within 30 s. Origin must be the service's own host or one of
// [Options.Origins].
//
// A port's URL is as good as a key to that port, and ends with the sandbox. See Ports
// below.
//
// Agents: a call is over when the command itself exits. timeout is in seconds, more
// than 0 and at most 3,600, and 300 by default (null too); when it is up the exitCode
// is 124. maxBuffer is how many bytes of each stream are stored, at most 16 MiB; 0 is
// 1 MiB; truncated says that a stream had more, stdoutBytes and stderrBytes how many there
// were in all. The offsets count the bytes of a stream up to the first that is not in the
// response. A command that was cancelled has exitCode null. Every error after a
// command has started has x-should-retry: false, since the clients retry. With yield
// (seconds, 0 too) the answer comes by then, with state running and exitCode null if the
// command still runs; from then on it is independent of the client, and its handle reads
// on: …?stdoutOffset=&stderrOffset=&wait=, which waits up to so many seconds for what is
// new. With openStdin the input stays open. Reading and writing files make the agent's
// sandbox as exec does.
//
// A client that leaves cancels a command of a room or an agent: it will try again,
// and two copies must not run.
//
// How errors of package sandbox are answered:
//
//	                                             rooms   sandboxes   agents
//	a malformed command or name                  400     400         400
//	bad directory, bad user, too long            400     400         400
//	any other failed start                       500     200         500
//	a sandbox that has died, or been removed     500     409         503
//	a limit of the Manager                       503     429         429
//	what the backend could not do                500     503         503
//	a Config that the backend cannot honour      500     500         500
//	an execution that is over, a closed input    -       409         409
//	a file that does not exist                   -       404         404
//	a directory, no directory, a special file    -       400         400
//	no permission, a path out of the sandbox     -       403         403
//	a file in the way, a directory not empty     -       409         409
//	no space left                                -       507         507
//	what the backend does not have               -       501         501
//	nobody listens on the port                   -       502         -
//
// A stream answers with the same codes before its first event. After that, a
// sandbox that is lost is the one error event, and every other end is the exit
// event.
//
// # Ports
//
// What a sandbox serves is written by strangers, and below the service's own host a
// browser would take it for the service. So a request to a port is passed on without
// Authorization, Cookie, Referer, and any header that has the token in it; an answer
// without Set-Cookie and what else acts on a whole origin, and with a
// Content-Security-Policy that gives pages an origin of their own. They can run scripts,
// but have no storage, and cannot read answers of their own server by fetch. For whole
// web applications set [Options.PortsDomain], which gives each port a host. Requests for
// those hosts go to [Handlers.Ports].
//
// A path below a port's URL reaches the program as it was sent, which needs a server that
// does not send the paths through a ServeMux: that redirects "//" and "..".
//
// Each request goes over a connection of its own, so a program that closes connections
// without a word loses none. Bodies go both ways at once, as they come, and a program may
// answer before it has read the request. That takes a server whose ResponseWriter has
// EnableFullDuplex, as net/http's has, or one that is reached through Unwrap. Behind
// middleware that hides it, an answer waits up to 10 s until the request has been sent,
// and is a 502 if it has not: net/http would drop the rest of the request unseen.
//
// # Shutting down
//
// [http.Server.Shutdown] waits for streams, and [sandbox.Manager.Close] ends them:
// each gets its exit event, with status cancelled. So begin the one, do the other,
// and wait for both:
//
//	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
//	defer cancel()
//	drained := make(chan error, 1)
//	go func() { drained <- server.Shutdown(ctx) }()
//	err := errors.Join(manager.Close(ctx), <-drained, handlers.Wait(ctx))
//
// Terminals, which the server does not know of any more, get their last message too:
// [Handlers.Wait] waits for them.
//
// A client that does not read its stream holds Shutdown until ctx ends; then
// server.Close cuts it off.
package httpapi
