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
		NewSandbox: func(_ context.Context, p httpapi.Principal, api, name string) (*sandbox.Config, error) {
			return nil, &httpapi.Error{Status: http.StatusPaymentRequired, Message: "Credit balance exhausted."}
		},
	})
	r := httptest.NewRequest("POST", "/v1/sandboxes", strings.NewReader(`{"size":"small"}`))
	fmt.Println(answer(h.Sandboxes(), r))
	// Output:
	// 402 {"error":{"message":"Credit balance exhausted.","type":"insufficient_credit"}}
}

func answer(h http.Handler, r *http.Request) string {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return fmt.Sprint(rec.Code, " ", strings.TrimSpace(rec.Body.String()))
}
