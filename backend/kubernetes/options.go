package kubernetes

import (
	"cmp"
	"log/slog"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/contained"
)

// Options say which cluster to use and what sandboxes are made of. Nil and the zero
// value are the defaults, which are the safe ones. A [backend.Config] wins over them
// where it says something.
type Options struct {
	// Config is how to reach the cluster; it is copied. Nil is what Kubeconfig says.
	Config *rest.Config

	// Kubeconfig is the path of a kubeconfig file. Empty is what kubectl would use:
	// KUBECONFIG, or else ~/.kube/config; where neither is there, and the service runs
	// in a pod, the pod's service account.
	Kubeconfig string

	// Context is the kubeconfig's context. Empty is its current one.
	Context string

	// Namespace is where pods are made. Empty is that of the context, or of the
	// service's own pod, or else "default".
	Namespace string

	// Owner names the service. Pods carry it, and all replicas of the service have the
	// same: each recovers what carries its own name, never another's. Empty is
	// "default".
	Owner string

	// Image is what sandboxes start from. Empty is what Template says, or else
	// [DefaultImage]. Its environment is kept; its entrypoint and working directory
	// are not used.
	Image string

	// AgentImage is the image of the init container, which takes the agent in. It needs
	// sh, cat, chmod, head, mv, sha256sum, sleep, uname and wc, as busybox has. Where it has
	// the agent's program as /sandbox-agent (see [Agent]) nothing is sent through the
	// API server; else the agent is sent there for each sandbox. Empty is the
	// sandbox's own image, which needs those programs then.
	AgentImage string

	// PodSecurity is the Pod Security Standard that pods keep. Empty is [Restricted].
	PodSecurity PodSecurity

	// RuntimeClass is the pods' runtimeClassName, as for gVisor or Kata. Empty is the
	// cluster's default.
	RuntimeClass string

	// Template is merged over the defaults of the pod by the rules of a strategic merge
	// patch: what it names replaces them, and lists are merged by their keys. The
	// sandbox's container has the name [ContainerName], the init container
	// [InitContainerName]. The command, the restart policy, the agent's and the
	// sandbox's own volumes, and labels and annotations of this package are not for it
	// to change; a network, processes or a pid namespace shared with the node is refused.
	Template *corev1.PodTemplateSpec

	// WarmPool is the name of a SandboxWarmPool of the agent-sandbox project
	// (extensions.agents.x-k8s.io/v1beta1) in the same namespace. Its pods are taken by
	// SandboxClaims then, instead of being made. Its SandboxTemplate must have the pod
	// that PodTemplate returns: New refuses another, as Create refuses a pod or a Config
	// that differ from it. Empty is no pool.
	WarmPool string

	// Limits of a sandbox: memory is 1 GiB by default, and CPUs 1. A pod requests a tenth
	// of them, unless Template says otherwise. It cannot limit processes: PIDs above 0
	// is refused, and the kubelet's podPidsLimit is what there is.
	Limits backend.Limits

	// TmpSize is the size of /tmp in bytes, which is memory of the sandbox. 0 is
	// 256 MiB; negative is no bound but that of the memory.
	TmpSize int64

	// ReadOnly makes all files of the image read-only. /workspace, /home/user and /tmp
	// stay writable.
	ReadOnly bool

	// Env is added to the environment of every command.
	Env map[string]string

	// AbandonAfter is after how long without a service a pod ends itself. 0 is a
	// day; negative is never.
	AbandonAfter time.Duration

	// SingleProcessOOMKill says that the kernel kills single processes where a sandbox's
	// memory ends: on nodes with cgroup v1, or whose kubelet has singleProcessOOMKill.
	// Else it kills the whole sandbox, and which process it was is not told.
	SingleProcessOOMKill bool

	// Logger takes what the API server warns of. Nil is silent. The client's own
	// library logs through klog, whose output is the process's to choose.
	Logger *slog.Logger
}

// A PodSecurity is a Pod Security Standard.
type PodSecurity string

const (
	// Restricted: nothing in the pod is root, so the agent runs as the user that
	// commands run as, and Spec.User can be no other. They cannot look into it. Where the
	// node's kernel has Landlock with signal scopes (Linux 6.12), and the runtime's seccomp
	// profile allows that, they cannot signal it either, nor set the limits of a process by
	// its number; Info.ProtectedAgent tells from the first sandbox on. Else they can end
	// it, and with it what else runs in their sandbox.
	Restricted PodSecurity = "restricted"

	// Baseline: the agent is root in its container with CAP_CHOWN, KILL, SETGID,
	// SETPCAP and SETUID, of which no command gets any. Commands can do nothing to it,
	// and may run as any user but root.
	Baseline PodSecurity = "baseline"
)

const (
	// DefaultImage is what a sandbox starts from when nothing else is said.
	DefaultImage = "debian:stable-slim"

	// ContainerName is the name of the container in which commands run.
	ContainerName = "sandbox"

	// InitContainerName is the name of the init container that takes the agent in.
	InitContainerName = "agent"

	defaultOwner              = "default"
	defaultMemory             = 1 << 30
	defaultCPUs               = 1.0
	defaultAbandonAfter       = 24 * time.Hour
	defaultTmpSize      int64 = 256 << 20
)

// resolve returns a copy of o with every default in its place.
func (o *Options) resolve() Options {
	var r Options
	if o != nil {
		r = *o
	}
	r.Owner = cmp.Or(r.Owner, defaultOwner)
	r.PodSecurity = cmp.Or(r.PodSecurity, Restricted)
	r.Limits = contained.FillLimits(r.Limits, backend.Limits{Memory: defaultMemory, CPUs: defaultCPUs, PIDs: -1})
	r.TmpSize = cmp.Or(r.TmpSize, defaultTmpSize)
	r.AbandonAfter = cmp.Or(r.AbandonAfter, defaultAbandonAfter)
	r.Env = maps.Clone(r.Env)
	r.Template = r.Template.DeepCopy()
	return r
}
