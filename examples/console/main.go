// Command console serves one page on which the sandboxes API can be tried by hand:
// make sandboxes, run commands, type at a terminal, edit files.
//
//	go run -C examples/console .
//	go run -C examples/console . -backend docker -image alpine -egress 'github.com,*.npmjs.org'
//
// Open the URL that it prints. Behind its "#" is the key, made for this run: a browser
// sends that part to nobody, and the page takes it out of the address bar. On Ctrl-C
// everything is killed and removed.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/docker"
	"github.com/sandbox-go/sandbox/backend/local"
	"github.com/sandbox-go/sandbox/examples/console/page"
	"github.com/sandbox-go/sandbox/httpapi"
)

const (
	// closeTime is for the last events and answers, and the removal of the sandboxes.
	closeTime = 8 * time.Second

	// lifetime is the age at which a sandbox ends, also where no console is left.
	lifetime = 24 * time.Hour
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // so that a second signal ends the process at once
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "console:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("console", flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:8081", "`address` to listen on")
	backendName := flags.String("backend", "local", "where commands run: local or docker")
	image := flags.String("image", "", "docker's `image` for sandboxes; empty is debian:stable-slim")
	egress := flags.String("egress", "", "comma-separated `rules` for what sandboxes may connect to, as in github.com,*.npmjs.org; not with local")
	if err := flags.Parse(args); err != nil {
		return err
	}
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	defer l.Close()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	b, err := newBackend(ctx, *backendName, *image, deployment(l.Addr()), log)
	if err != nil {
		return err
	}
	for _, caveat := range b.Info().Caveats {
		log.Warn(caveat, "backend", b.Info().Name)
	}
	m := sandbox.NewManager(b, &sandbox.ManagerOptions{Lifetime: lifetime, Logger: log})
	if err := m.Recover(ctx); err != nil {
		log.Error("not all sandboxes of an earlier run were recovered", "error", err)
	}
	key := "key_" + strings.ToLower(rand.Text())
	h := httpapi.New(m, &httpapi.Options{
		Authenticate: httpapi.BearerKeys(map[string]string{key: "console"}),
		NewSandbox: func(context.Context, *httpapi.NewSandboxRequest) (*sandbox.CreateOptions, error) {
			return &sandbox.CreateOptions{Config: sandbox.Config{Egress: rules(*egress)}}, nil
		},
		Logger: log,
	})
	mux := http.NewServeMux()
	mux.Handle("/", page.Handler())
	mux.Handle("/v1/sandboxes", h.Sandboxes())
	mux.Handle("/v1/sandboxes/", h.Sandboxes())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	fmt.Printf("open http://%s/#key=%s\n", l.Addr(), key)

	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	return errors.Join(err, shutDown(server, h, m, b))
}

// rules returns what a list of rules allows, or nil where there is none.
func rules(list string) *sandbox.Egress {
	if list == "" {
		return nil
	}
	return &sandbox.Egress{Allow: strings.Split(list, ",")}
}

// deployment returns a name that no other deployment on the same engine has: none on this
// host has the same address at the same time.
func deployment(addr net.Addr) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return "examples/console " + host + " " + addr.String()
}

// newBackend returns the backend of that name.
func newBackend(ctx context.Context, name, image, owner string, log *slog.Logger) (sandbox.Backend, error) {
	switch name {
	case "local":
		return local.New(nil)
	case "docker":
		return docker.New(ctx, &docker.Options{Image: image, Owner: owner, Logger: log})
	}
	return nil, fmt.Errorf("there is no backend %q: use local or docker", name)
}

// shutDown ends what runs, so that every stream and terminal is told, and waits for that.
func shutDown(server *http.Server, h *httpapi.Handlers, m *sandbox.Manager, b sandbox.Backend) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	drained := make(chan error, 1)
	go func() { drained <- server.Shutdown(ctx) }()
	err := errors.Join(m.Close(ctx), <-drained, h.Wait(ctx))
	server.Close() // of clients that do not take their answer
	return errors.Join(err, b.Close(context.WithoutCancel(ctx)))
}
