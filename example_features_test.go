package sandbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/fake"
)

// Rules say what may be connected to from inside, and the service sees what was tried.
func ExampleSandbox_egress() {
	ctx := context.Background()
	b := fake.New(nil)
	defer b.Close(ctx)
	b.Handle("curl -sS http://example.com", func(p *fake.Process) int {
		proxy, err := url.Parse(p.Getenv("HTTP_PROXY"))
		if err != nil {
			return 1
		}
		client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy), DialContext: p.Dial, DisableKeepAlives: true}}
		resp, err := client.Get("http://example.com")
		if err != nil {
			return 1
		}
		defer resp.Body.Close()
		io.Copy(p.Stdout, resp.Body)
		return 0
	})
	sb, err := sandbox.New(ctx, b, &sandbox.Options{Config: sandbox.Config{
		Egress: &sandbox.Egress{Allow: []string{"*.npmjs.org", "github.com:443"}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close(ctx)
	rec, err := sb.Run(ctx, sandbox.Command{Shell: "curl -sS http://example.com"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(rec.Stdout)
	for _, attempt := range sb.Egress() {
		fmt.Println(attempt.Host, attempt.Port, attempt.Verdict)
	}
	// Output:
	// egress: example.com:80 is not allowed from this sandbox; the rule to add is "example.com:80"
	// example.com 80 refused
}

// What a command serves on a port is reached without a network: as by any http.Client.
func ExampleSandbox_dial() {
	ctx := context.Background()
	b := fake.New(nil)
	defer b.Close(ctx)
	b.Handle("serve", func(p *fake.Process) int {
		l, err := p.Listen(8080)
		if err != nil {
			return 1
		}
		http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello\n") }))
		return 0
	})
	sb, err := sandbox.New(ctx, b, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close(ctx)

	if _, err := sb.Dial(ctx, 8080); errors.Is(err, sandbox.ErrRefused) {
		fmt.Println("nobody listens yet")
	}
	if _, err := sb.Start(ctx, sandbox.Command{Shell: "serve"}); err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			for {
				conn, err := sb.Dial(ctx, 8080)
				if !errors.Is(err, sandbox.ErrRefused) {
					return conn, err
				}
				time.Sleep(time.Millisecond) // the command has not got so far
			}
		},
	}}
	resp, err := client.Get("http://sandbox/")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Print(string(body))
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// nobody listens yet
	// hello
}

// A sandbox with limits, a mount and an environment. What a backend cannot honour is an
// error: nothing is silently left out.
func ExampleConfig() {
	ctx := context.Background()
	b := fake.New(nil) // docker.New(ctx, nil) enforces them
	defer b.Close(ctx)
	b.Handle("env", func(p *fake.Process) int {
		fmt.Fprintln(p.Stdout, "CI is", p.Getenv("CI"))
		return 0
	})

	sb, err := sandbox.New(ctx, b, &sandbox.Options{Config: sandbox.Config{
		Image:   "golang:1.26",
		Limits:  sandbox.Limits{Memory: 512 << 20, CPUs: 1.5, PIDs: 200},
		Mounts:  []sandbox.Mount{{Source: "/srv/modules", Target: "/modules", ReadOnly: true}},
		Network: "builds",
		Env:     map[string]string{"CI": "true"},
		Labels:  map[string]string{"job": "4711"},
	}})
	if errors.Is(err, errors.ErrUnsupported) {
		fmt.Println("this backend cannot:", err)
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close(ctx)
	rec, err := sb.Run(ctx, sandbox.Command{Shell: "env"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(rec.Stdout)
	fmt.Println("job", sb.Info().Labels["job"])
	// Output:
	// CI is true
	// job 4711
}

// One sandbox of a Manager may differ from the others, and all can be listed.
func ExampleManager_All() {
	ctx := context.Background()
	b := fake.New(nil)
	defer b.Close(ctx)
	m := sandbox.NewManager(b, &sandbox.ManagerOptions{IdleTime: 10 * time.Minute})
	defer m.Close(ctx)

	for _, owner := range []string{"ann", "bob"} {
		_, err := m.GetOrCreate(ctx, sandbox.Key{Owner: owner, Name: "scratch"}, func(context.Context) (*sandbox.CreateOptions, error) {
			opts := &sandbox.CreateOptions{MaxRunning: 4}
			if owner == "bob" {
				opts.IdleTime = -1 // stays until it is removed
			}
			return opts, nil
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		time.Sleep(time.Millisecond)
	}
	for key, sb := range m.All() {
		fmt.Println(key.Owner, key.Name, sb.Info().Status)
	}
	for key := range m.OwnedBy("bob") {
		if err := m.Remove(ctx, key); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// ann scratch running
	// bob scratch running
}

// A service that was restarted reattaches to the sandboxes that it has left running,
// before it takes requests. With docker.New they are its containers.
func ExampleManager_Recover() {
	ctx := context.Background()
	b := fake.New(nil)
	defer b.Close(ctx)
	m := sandbox.NewManager(b, nil)
	defer m.Close(ctx)

	if err := m.Recover(ctx); err != nil {
		fmt.Println("some could not be recovered:", err)
	}
	recovered := 0
	for range m.All() {
		recovered++
	}
	fmt.Println(recovered, "sandboxes, as the fake keeps none")
	// Output:
	// 0 sandboxes, as the fake keeps none
}

// A record is stored as JSON, and read back.
func ExampleExecution_MarshalJSON() {
	ctx := context.Background()
	b := fake.New(nil)
	defer b.Close(ctx)
	sb, err := sandbox.New(ctx, b, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close(ctx)
	rec, err := sb.Run(ctx, sandbox.Command{Argv: []string{"no-such-program"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	stored, err := json.Marshal(rec)
	if err != nil {
		fmt.Println(err)
		return
	}

	var again sandbox.Execution
	if err := json.Unmarshal(stored, &again); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(again.Command.Argv, again.Status, errors.Is(again.Err, sandbox.ReasonNotFound))
	// Output:
	// [no-such-program] failed true
}
