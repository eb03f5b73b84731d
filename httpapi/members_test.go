package httpapi_test

import (
	"io"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
)

// What a body costs is bounded by its bytes, not by how many values it has.
func TestManyMembersAreRefusedCheaply(t *testing.T) {
	w := start(t, nil)
	id := w.sandbox(t, "a")
	many := func(member string) string { return strings.Repeat(member, 7*mib/len(member)) }
	for name, body := range map[string]string{
		"unknown":  `{` + many(`"a12345":1,`) + `"command":"true"}`,
		"env":      `{"command":"true","env":{` + many(`"a":"12345",`) + `"b":""}}`,
		"array":    `{"command":"true","x":[` + many(`1,`) + `1]}`,
		"nested":   `{"command":"true","x":` + many(`[`),
		"in-array": `{"command":"true","x":[` + many(`{"":{}},`) + `1]}`,
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/v1/sandboxes/"+id+"/exec", strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer key-a")
			rec := httptest.NewRecorder()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			w.api.Sandboxes().ServeHTTP(rec, r)
			runtime.ReadMemStats(&after)
			if rec.Code != 400 {
				t.Errorf("status %d: %s", rec.Code, rec.Body)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > 4*mib {
				t.Errorf("allocated %d KiB", got>>10)
			}
			if rest, _ := io.ReadAll(r.Body); len(rest) > 0 {
				t.Errorf("%d bytes were not read: a client that sends them would not see the answer", len(rest))
			}
		})
	}
	if started := w.starts(); started != nil {
		t.Errorf("started %q", started)
	}
}
