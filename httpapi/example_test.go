package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/fake"
	"github.com/sandbox-go/sandbox/httpapi"
)

// The three APIs on a mux that has routes of its own.
func Example() {
	b := fake.New(nil)
	b.Handle("echo hi", fake.Result(0, "hi\n", ""))
	m := sandbox.NewManager(b, nil)
	defer m.Close(context.Background())

	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	httpapi.New(m, &httpapi.Options{
		Authenticate: httpapi.BearerKeys(map[string]string{"secret": "account-1"}),
	}).Register(mux)

	r := httptest.NewRequest("POST", "/agents/agent_1/sandbox/exec", strings.NewReader(`{"command":"echo hi"}`))
	r.Header.Set("Authorization", "Bearer secret")
	rec := httptest.NewRecorder()
	mux.ServeHTTP(rec, r)
	var result struct {
		ExitCode int
		Stdout   string
	}
	err := json.Unmarshal(rec.Body.Bytes(), &result)
	fmt.Printf("%d exit code %d, stdout %q, error %v\n", rec.Code, result.ExitCode, result.Stdout, err)

	r = httptest.NewRequest("POST", "/agents/agent_1/sandbox/exec", strings.NewReader(`{"command":"echo hi"}`))
	fmt.Println(answer(mux, r))
	// Output:
	// 200 exit code 0, stdout "hi\n", error <nil>
	// 401 {"error":"missing or invalid API key","code":"UNAUTHORIZED"}
}

// One API below a path of the service's own.
func ExampleHandlers_Rooms() {
	b := fake.New(nil)
	m := sandbox.NewManager(b, nil)
	defer m.Close(context.Background())

	h := httpapi.New(m, &httpapi.Options{AuthenticateRooms: httpapi.Anyone})
	mux := http.NewServeMux()
	mux.Handle("/tools/", http.StripPrefix("/tools", h.Rooms()))

	r := httptest.NewRequest("DELETE", "/tools/api/rooms/room-123", nil)
	fmt.Println(answer(mux, r))
	// Output:
	// 200 {"success":true,"sandboxName":"sandbox-room-123"}
}

// Credit is the service's affair: a hook refuses what there is none left for.
func ExampleError() {
	b := fake.New(nil)
	m := sandbox.NewManager(b, nil)
	defer m.Close(context.Background())

	h := httpapi.New(m, &httpapi.Options{
		Authenticate: httpapi.Anyone,
		NewSandbox: func(context.Context, *httpapi.NewSandboxRequest) (*sandbox.CreateOptions, error) {
			return nil, &httpapi.Error{Status: http.StatusPaymentRequired, Message: "Credit balance exhausted."}
		},
	})
	r := httptest.NewRequest("POST", "/v1/sandboxes", strings.NewReader(`{"size":"small"}`))
	fmt.Println(answer(h.Sandboxes(), r))
	// Output:
	// 402 {"error":{"message":"Credit balance exhausted.","type":"insufficient_credit"}}
}

// A command in the background is followed, from any offset, by whoever has its id.
func ExampleHandlers_Sandboxes() {
	b := fake.New(nil)
	b.Handle("make", fake.Result(0, "compiling\nlinking\n", ""))
	m := sandbox.NewManager(b, nil)
	defer m.Close(context.Background())

	h := httpapi.New(m, &httpapi.Options{Authenticate: httpapi.Anyone}).Sandboxes()
	call := func(method, path, body string) (id, text string) {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(method, path, strings.NewReader(body)))
		var object struct{ ID string }
		_ = json.Unmarshal(rec.Body.Bytes(), &object)
		return object.ID, rec.Body.String()
	}
	sb, _ := call("POST", "/v1/sandboxes", `{}`)
	exec, _ := call("POST", "/v1/sandboxes/"+sb+"/exec", `{"command":"make","background":true}`)
	_, events := call("GET", "/v1/sandboxes/"+sb+"/executions/"+exec+"/stream?offset=0-0", "")
	for line := range strings.Lines(events) {
		if !strings.Contains(line, "exec_") { // which is another one each time
			fmt.Print(line)
		}
	}
	// Output:
	// event: start
	// id: 0-0
	//
	// event: stdout
	// data: {"data":"compiling\nlinking\n"}
	// id: 18-0
	//
	// event: exit
	// id: 18-0
}

// The document says what every route takes and answers.
func ExampleOpenAPI() {
	mux := http.NewServeMux()
	mux.Handle("GET /openapi.yaml", httpapi.OpenAPI())

	rec := httptest.NewRecorder()
	mux.ServeHTTP(rec, httptest.NewRequest("GET", "/openapi.yaml", nil))
	first, _, _ := strings.Cut(rec.Body.String(), "\n")
	fmt.Println(first)
	// Output:
	// openapi: 3.1.0
}

func answer(h http.Handler, r *http.Request) string {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return fmt.Sprint(rec.Code, " ", strings.TrimSpace(rec.Body.String()))
}

// The hooks know who asks, for which sandbox of which API, and by what request.
func ExampleOptions() {
	b := fake.New(nil)
	b.Handle("make", fake.Result(0, "built\n", ""))
	m := sandbox.NewManager(b, nil)
	defer m.Close(context.Background())

	h := httpapi.New(m, &httpapi.Options{
		Authenticate: httpapi.Anyone,
		NewSandbox: func(_ context.Context, r *httpapi.NewSandboxRequest) (*sandbox.CreateOptions, error) {
			opts := &sandbox.CreateOptions{Config: sandbox.Config{Image: "builder"}}
			if r.Key.Namespace == httpapi.Rooms {
				opts.MaxRunning = 1 // one command at a time in a chat room
			}
			return opts, nil
		},
		Authorize: func(_ context.Context, r *httpapi.AuthorizeRequest) error {
			if r.Key.Name == "lobby" {
				return &httpapi.Error{Status: http.StatusForbidden, Message: "no commands in " + r.Key.Name}
			}
			r.Command.Env = map[string]string{"REQUEST_ID": r.Request.Header.Get("X-Request-Id")}
			return nil
		},
	})
	for _, room := range []string{"lobby", "workshop"} {
		r := httptest.NewRequest("POST", "/api/rooms/"+room+"/sandbox/exec", strings.NewReader(`{"cmd":"make"}`))
		rec := httptest.NewRecorder()
		h.Rooms().ServeHTTP(rec, r)
		fmt.Println(room, rec.Code)
	}
	// Output:
	// lobby 403
	// workshop 200
}
