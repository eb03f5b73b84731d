// Package kubernetes runs commands in pods of a Kubernetes cluster, from version 1.29
// on. It is a module of its own, so that only who uses it builds client-go.
//
// # What a sandbox is
//
// One pod, which is never restarted. It runs what the image holds, with the image's
// environment, but not its entrypoint or working directory. Any image for linux/amd64 or
// linux/arm64 will do; a command given as Shell needs a sh in it. /workspace, the start
// directory and HOME, is an emptyDir, which is mounted at /home/user too, and /tmp is
// memory. By default the pod keeps the Pod Security Standard restricted: commands run as
// uid 1000, without any capability, with no_new_privs, the runtime's default seccomp
// profile, no service account token, and limits of memory and CPU. [Options] and
// [backend.Config] change that.
//
// # What is not as on Docker
//
// A pod has the cluster's network: deploy/networkpolicy.yaml takes it away. At the level
// restricted the agent runs as the commands' user, see [Restricted]. A pod cannot
// limit processes. The kernel may kill a whole sandbox where its memory ends, see
// Options.SingleProcessOOMKill. Info says what of it holds.
//
// # Warm pools
//
// Where the agent-sandbox project is installed, Options.WarmPool takes pods that run
// already, by a SandboxClaim for each sandbox, which is deleted with it.
//
// # How commands are started
//
// A small program of ours, the agent, is the pod's first process. It is put into an
// emptyDir by an init container, checked by its hash, and mounted read-only. One exec for
// each sandbox carries the connection to the agent, over WebSocket, or SPDY where the API
// server has none, and is opened again when it was lost; what ran when it was lost has
// failed, with an unknown outcome, and is killed. A command within it costs a fork, and
// the API server sees nothing of it.
//
// # Replicas
//
// Every Backend has a Lease, which it renews, and a pod has the label of the Lease of who
// is connected to it. When a lease is no longer renewed, [Backend.Recover] of another
// replica, or of the same service started again, takes the pod over. Whoever held it
// learns that from the label, and loses the sandbox.
//
// # What is left behind
//
// Closing a sandbox deletes its pod. When the service dies, what runs in its sandboxes is
// killed at once; the pods wait, idle, for Recover. A pod with a lifetime ends at
// its activeDeadlineSeconds, and one that no service is connected to for a day, or for
// Options.AbandonAfter, ends itself. [New] deletes what has ended meanwhile. Only what
// carries the name of Options.Owner is touched.
package kubernetes

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	typedcoordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"

	"github.com/sandbox-go/sandbox/backend"
)

const (
	answerTime   = 10 * time.Second // within which an API server answers
	cleanupTime  = 30 * time.Second // bounds the removal of what is of no use
	removeAtOnce = 8                // removals in parallel
)

// A Backend makes sandboxes in one namespace of a cluster. Its methods may be called
// concurrently.
type Backend struct {
	opts      Options
	config    *rest.Config
	host      string // the API server's address
	namespace string
	replica   string // the name of the Backend's lease
	pods      typedcore.PodInterface
	leases    typedcoordination.LeaseInterface
	core      rest.Interface
	custom    dynamic.Interface
	dialer    *connrotation.Dialer // has the connections to the API server, but those of execs
	poolSpec  *corev1.PodSpec      // of the pods of the warm pool; nil without one

	// pingEvery is how often an agent is asked whether it is there, so that nobody on the
	// way takes its connection for idle, and pingTime how long it may take to answer.
	pingEvery, pingTime time.Duration

	// Whether there was an agent that commands cannot signal, and one that they can.
	protected, unprotected atomic.Bool

	alive context.Context // ends when Close is called
	stop  context.CancelCauseFunc
	done  sync.WaitGroup // goroutines, and calls that Close must outlast

	mu        sync.Mutex // guards what follows
	closed    bool
	instances map[types.UID]*instance // by the pod's uid
	pending   map[removal]bool        // what could not be deleted
	taken     map[types.UID]bool      // pods that were taken over, and could not be connected to
}

// New connects to the cluster, and deletes what an earlier process of the same owner left
// that has ended since. The context covers that only. Nil for opts is the defaults;
// they are copied. The error is an *Error when the cluster is missing or closed to us.
func New(ctx context.Context, opts *Options) (*Backend, error) {
	b := &Backend{
		opts:      opts.resolve(),
		pingEvery: defaultPingEvery,
		pingTime:  defaultPingTime,
		instances: make(map[types.UID]*instance),
		pending:   make(map[removal]bool),
		taken:     make(map[types.UID]bool),
	}
	if b.opts.PodSecurity != Restricted && b.opts.PodSecurity != Baseline {
		return nil, &Error{BadConfig, "Options.PodSecurity", "let it be Restricted or Baseline", nil}
	}
	if err := b.connect(); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, cleanupTime)
	defer cancel()
	err := b.checkPool(bounded)
	if err == nil {
		err = b.tidy(bounded)
	}
	if err == nil {
		err = b.makeLease(bounded)
	}
	if err != nil {
		b.dialer.CloseAll()
		return nil, b.clusterError(err)
	}
	b.alive, b.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	b.done.Go(func() { b.renew(b.alive) })
	b.done.Go(func() { b.watch(b.alive) })
	if b.opts.AbandonAfter > 0 {
		b.done.Go(func() { b.prolong(b.alive) })
	}
	return b, nil
}

// Info says what pods promise.
func (b *Backend) Info() backend.Info {
	info := backend.Info{
		Name:             "kubernetes",
		Containment:      backend.ContainmentSupervisor,
		DedicatedUser:    b.opts.PodSecurity == Baseline,
		DedicatedFiles:   true,
		ProtectedAgent:   b.opts.PodSecurity == Baseline || b.protected.Load() && !b.unprotected.Load(),
		DedicatedNetwork: true,
		DedicatedKernel:  false,
		OOM:              b.opts.SingleProcessOOMKill,
		Terminal:         true,
		Files:            true,
		Ports:            true,
		Recover:          true,
		Caveats: []string{
			"A pod reaches the cluster's network, and what that leads to, unless a NetworkPolicy forbids it, as deploy/networkpolicy.yaml does.",
			"Processes are limited by the kubelet's podPidsLimit only.",
		},
	}
	if b.opts.RuntimeClass == "" {
		info.Caveats = append(info.Caveats, "Sandboxes share the kernel of their node, unless the cluster's default runtime says otherwise. Name another RuntimeClass for commands that may attack it.")
	}
	switch {
	case b.opts.PodSecurity != Restricted:
	case info.ProtectedAgent:
		info.Caveats = append(info.Caveats, "The agent runs as the commands' user: a command can neither look into it nor signal it, but can kill the supervisors of the sandbox's other commands, which then fail.")
	case b.unprotected.Load():
		info.Caveats = append(info.Caveats, "The agent runs as the commands' user: a command cannot look into it, but can end it, or the sandbox, and what else runs there has failed then: a node's kernel does not keep it from that (Landlock, Linux 6.12). PodSecurity Baseline keeps them apart.")
	default:
		info.Caveats = append(info.Caveats, "The agent runs as the commands' user: a command cannot look into it, but can end it where the node's kernel does not keep it from that (Landlock, Linux 6.12), which is known from the first sandbox on. PodSecurity Baseline keeps them apart.")
	}
	if !b.opts.SingleProcessOOMKill {
		info.Caveats = append(info.Caveats, "Which processes were killed for memory is not told: the kernel may kill the whole sandbox.")
	}
	return info
}

// Close deletes the sandboxes and the lease. After an error it may be called again.
func (b *Backend) Close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.stop(errClosed)

	left := b.sandboxes()
	errs := make([]error, len(left))
	var group errgroup.Group
	group.SetLimit(removeAtOnce)
	for n, i := range left {
		group.Go(func() error {
			i.Die(errClosed)
			errs[n] = i.Destroy(ctx)
			return nil
		})
	}
	group.Wait()
	if err := errors.Join(append(errs, b.deletePending(ctx))...); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		b.done.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		if err := b.deleteLease(ctx); err != nil {
			return err
		}
		b.dialer.CloseAll()
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begin holds up the end of Close until the caller calls b.done.Done. It reports
// false when the backend is closed.
func (b *Backend) begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.done.Add(1)
	}
	return !b.closed
}

// sandboxes returns the sandboxes there are.
func (b *Backend) sandboxes() []*instance {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Values(b.instances))
}

// lookup returns the sandbox of that pod, or nil.
func (b *Backend) lookup(uid types.UID) *instance {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.instances[uid]
}

// add makes i one of the sandboxes, unless the backend is closed.
func (b *Backend) add(i *instance) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errClosed
	}
	b.instances[i.uid] = i
	return nil
}

// forget makes i none of the sandboxes.
func (b *Backend) forget(i *instance) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.instances, i.uid)
}

var errClosed = errors.New("kubernetes: the backend is closed")
