// Command server is a small complete service: the three HTTP APIs over one
// backend, next to routes of its own.
//
//	(umask 077; echo "me: $(openssl rand -hex 16)" >keys; sed 's/me:/Authorization: Bearer/' keys >header)
//	go run -C examples/server . -addr 127.0.0.1:8080 -keys "$PWD/keys"
//	curl -H @header -d '{"command":"echo hi"}' http://127.0.0.1:8080/agents/agent_1/sandbox/exec
//
// The file has one key a line, "key" or "owner: key"; keys without an owner are accounts of
// their own. They may be in SANDBOX_API_KEYS too, but never in the arguments, which
// everybody on the machine can read. Where commands run as the service's user, as those of
// an ordinary user locally do, no key is safe from them, and the server says so.
//
// With -backend kubernetes sandboxes are pods of the cluster that kubectl would use, or that
// the server itself is a pod of. It is a module of its own for that: client-go is large.
//
// Several deployments may share one Docker engine, or one namespace of a cluster: each recovers
// its own sandboxes after a restart, by -owner, which is the host's name and the address by default. A sandbox whose
// deployment does not come back ends by itself at the age of -lifetime.
//
// On SIGTERM or Ctrl-C each stream gets its last event, everything is killed and removed,
// and the server exits.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/docker"
	"github.com/sandbox-go/sandbox/backend/kubernetes"
	"github.com/sandbox-go/sandbox/backend/local"
	"github.com/sandbox-go/sandbox/backend/namespace"
	"github.com/sandbox-go/sandbox/backend/namespace/image"
	"github.com/sandbox-go/sandbox/httpapi"
)

const (
	// drainTime is for the last events and answers, and the removal of the
	// sandboxes.
	drainTime = 8 * time.Second

	// closeTime is for what the backend itself holds.
	closeTime = time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // so that a second signal ends the process at once
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:8080", "`address` to listen on")
	backendName := flags.String("backend", "", "where commands run: namespace, local, docker or kubernetes; empty is namespace, and local where that does not work")
	root := flags.String("root", "", "namespace's root of sandboxes: a `path` of a directory, of an OCI layout, or of an image's archive, as docker save writes it; empty is this machine's programs")
	image := flags.String("image", "", "`image` of docker's and kubernetes' sandboxes; empty is debian:stable-slim")
	namespaceName := flags.String("namespace", "", "`namespace` of kubernetes' pods; empty is the kubeconfig's, or that of the server's own pod")
	openRooms := flags.Bool("open-rooms", false, "let rooms be used without a key, at the address of the service and its hosts")
	var hosts []string
	flags.Func("host", "`name` of the service, where it is not its address, for -open-rooms; may be repeated", func(name string) error {
		hosts = append(hosts, name)
		return nil
	})
	owner := flags.String("owner", "", "`name` of this deployment, which no other on the same engine may have; empty is the host's name and the address")
	lifetime := flags.Duration("lifetime", 24*time.Hour, "the `age` at which a sandbox is removed, also where no service is left to do so; 0 is never")
	baseURL := flags.String("base-url", "", "`URL` at which clients reach the service, where it is not the one that they ask for")
	portsDomain := flags.String("ports-domain", "", "`domain` below which every port of a sandbox gets a host of its own")
	keyFile := flags.String("keys", "", "`file` of API keys, one a line: key, or owner: key; adds to SANDBOX_API_KEYS")
	if err := flags.Parse(args); err != nil {
		return err
	}
	keys := make(keyring)
	keys.addList(os.Getenv("SANDBOX_API_KEYS"))
	inEnvironment := len(keys) > 0
	var keyFileMode fs.FileMode
	if *keyFile != "" {
		mode, err := keys.addFile(*keyFile)
		if err != nil {
			return err
		}
		keyFileMode = mode
	}
	if len(keys) == 0 {
		key := newKey()
		keys.add("", key)
		fmt.Println("key for this run:", key)
	}

	l, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	defer l.Close()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if *owner == "" {
		*owner = deployment(l.Addr())
	}
	b, err := newBackend(ctx, *backendName, *image, *root, *namespaceName, *owner, log)
	if err != nil {
		return err
	}
	if err := checkKeyFile(*keyFile, keyFileMode, b.Info()); err != nil {
		return errors.Join(err, b.Close(ctx))
	}
	if info := b.Info(); !info.DedicatedUser && !info.DedicatedFiles {
		log.Warn(sharedUser, "backend", b.Info().Name, "in_environment", inEnvironment)
	}
	for _, caveat := range b.Info().Caveats {
		log.Warn(caveat, "backend", b.Info().Name)
	}
	m := sandbox.NewManager(b, &sandbox.ManagerOptions{Lifetime: *lifetime, Logger: log})
	if err := m.Recover(ctx); err != nil {
		log.Error("not all sandboxes of an earlier run were recovered", "error", err)
	}
	opts := &httpapi.Options{
		Authenticate: httpapi.BearerKeys(keys),
		BaseURL:      *baseURL,
		PortsDomain:  *portsDomain,
		Logger:       log,
	}
	if *openRooms {
		opts.AuthenticateRooms = httpapi.AnyoneAt(hosts...)
	}
	h := httpapi.New(m, opts)
	server := &http.Server{
		Handler:           handler(h, *openRooms, *portsDomain),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute, // httpapi lifts this and the next while a command runs
		WriteTimeout:      time.Minute,
		IdleTimeout:       2 * time.Minute,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	fmt.Printf("listening on http://%s\n", l.Addr())

	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	return errors.Join(err, shutDown(server, h, m, b))
}

// deployment returns a name that no other deployment has: none on this host has the same
// address at the same time.
func deployment(addr net.Addr) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return "examples/server " + host + " " + addr.String()
}

// newBackend returns the backend of that name.
func newBackend(ctx context.Context, name, image, root, namespaceName, owner string, log *slog.Logger) (sandbox.Backend, error) {
	switch name {
	case "":
		b, err := inNamespaces(ctx, root)
		if err == nil || root != "" {
			return b, err
		}
		log.Warn("commands run on this machine without isolation (-backend local), since namespaces cannot be had", "error", err)
		return local.New(nil)
	case "local":
		return local.New(nil)
	case "namespace":
		return inNamespaces(ctx, root)
	case "docker":
		return docker.New(ctx, &docker.Options{Image: image, Owner: owner, Logger: log})
	case "kubernetes":
		return kubernetes.New(ctx, &kubernetes.Options{Image: image, Namespace: namespaceName, Owner: owner, Logger: log})
	}
	return nil, fmt.Errorf("there is no backend %q: use namespace, local, docker or kubernetes", name)
}

// inNamespaces returns the backend of sandboxes with that root, which it unpacks if it is an
// image.
func inNamespaces(ctx context.Context, root string) (sandbox.Backend, error) {
	opts := &namespace.Options{Root: root}
	info, err := os.Stat(root)
	if err == nil && info.IsDir() {
		_, err = os.Stat(filepath.Join(root, "oci-layout"))
	}
	if err == nil {
		img, err := image.Unpack(ctx, root, nil)
		if err != nil {
			return nil, err
		}
		opts.Root, opts.Env = img.Root, img.Env
	}
	b, err := namespace.New(opts)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// shutDown takes no new connections, ends what runs, so that every stream and every
// terminal is told, waits until all answers are sent, and lets go of the backend.
func shutDown(server *http.Server, h *httpapi.Handlers, m *sandbox.Manager, b sandbox.Backend) error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	drained := make(chan error, 1)
	go func() { drained <- server.Shutdown(ctx) }()
	err := errors.Join(m.Close(ctx), <-drained, h.Wait(ctx))
	server.Close() // of clients that do not take their answer

	ctx, cancel = context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	return errors.Join(err, b.Close(ctx))
}
