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
//	POST   /v1/sandboxes                              make a sandbox
//	GET    /v1/sandboxes                              list the account's sandboxes
//	GET    /v1/sandboxes/{id}                         one of them
//	DELETE /v1/sandboxes/{id}                         remove it
//	POST   /v1/sandboxes/{id}/exec                    run a command, as JSON or as a stream of events
//	GET    /v1/sandboxes/{id}/executions              what ran and runs there, oldest first
//	GET    /v1/sandboxes/{id}/executions/{exec_id}    one of them
//	POST   /agents/{agentId}/sandbox/exec             run a command in the agent's sandbox
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
// They are one JSON object, whatever the content type says. Property names are
// case-sensitive, unknown ones are ignored, a known one given twice is a 400, and
// so is what is not Unicode: invalid UTF-8 or half of a surrogate pair. A command
// is at most 1 MiB. What is malformed makes no sandbox and starts nothing.
//
// Output is text in JSON, with U+FFFD for what is not UTF-8.
//
// The server's WriteTimeout is lifted while a command runs; 30 s after its end the
// answer must have been taken. Streams need a ResponseWriter that
// [http.ResponseController] can flush.
//
// # Where the documents are silent
//
// Rooms: a call is over when the command itself exits (sandbox.WaitExit), or after
// 5 minutes, which is a 200 with exitCode 124. The result also has success,
// exitCode, command, duration (milliseconds) and timestamp. Bodies of 401, 404, 405
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
// Agents: a call is over when the command itself exits. timeout is in seconds, more
// than 0 and at most 3,600, and 300 by default (null too); when it is up the exitCode
// is 124. maxBuffer is how many bytes of each stream are stored, at most 16 MiB; 0 is
// 1 MiB. The offsets count the bytes of a stream up to the first that is not in the
// response. A command that was cancelled has exitCode null. Every error after a
// command has started has x-should-retry: false, since the clients retry.
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
//
// A stream answers with the same codes before its first event. After that, a
// sandbox that is lost is the one error event, and every other end is the exit
// event.
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
//	err := errors.Join(manager.Close(ctx), <-drained)
//
// A client that does not read its stream holds Shutdown until ctx ends; then
// server.Close cuts it off.
package httpapi
