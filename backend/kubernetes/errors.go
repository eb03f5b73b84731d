package kubernetes

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A Problem is what stands in the way of a sandbox. It is an error, so that
// errors.Is(err, kubernetes.NoImage) asks for it.
type Problem string

const (
	NoCluster    Problem = "no API server answers"
	NoNode       Problem = "the node does not answer"
	NoPermission Problem = "no permission in the cluster"
	BadConfig    Problem = "bad configuration"
	BadPod       Problem = "pod refused"
	NoRoom       Problem = "no room in the cluster"
	NoImage      Problem = "no such image"
	BadImage     Problem = "image of no use"
	NameTaken    Problem = "name taken"
	NoLimit      Problem = "limit not enforced"
	NoWarmPool   Problem = "no such warm pool"
)

// Error returns the problem in words.
func (p Problem) Error() string { return string(p) }

// An Error says what stands in the way of a sandbox, and what to do about it.
type Error struct {
	Problem Problem

	// Name is what the problem is about: the API server's address, the image, the pod.
	Name string

	// Advice is what to do about it, in words.
	Advice string

	// Err is what the cluster or the connection to it said; it may be nil.
	Err error
}

// Error returns the name, the problem, the advice and the cause.
func (e *Error) Error() string {
	msg := "kubernetes: " + string(e.Problem) + ": " + e.Name + ": " + e.Advice
	if e.Err != nil {
		msg += " (" + e.Err.Error() + ")"
	}
	return msg
}

// Unwrap returns the problem and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Problem}
	}
	return []error{e.Problem, e.Err}
}

// problemOf returns what those who run commands may know of an error: the rest is the
// service's.
func problemOf(err error) string {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Problem.Error()
	}
	return ""
}

// clusterError names the problem where err is about the way to the API server or what it
// permits, and returns it as it is otherwise.
func (b *Backend) clusterError(err error) error {
	if err == nil || errors.As(err, new(*Error)) {
		return err
	}
	var dialing *net.OpError
	var request *url.Error
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return &Error{NoPermission, b.namespace, "let the service's account do it, as deploy/rbac.yaml has it, and deploy/warmpool.yaml for a warm pool", err}
	case apierrors.IsNotFound(err) && kindOf(err) == "namespaces":
		return &Error{BadConfig, b.namespace, "create the namespace, as deploy/rbac.yaml does, or name another", err}
	case apierrors.IsServerTimeout(err), apierrors.IsServiceUnavailable(err), apierrors.IsTimeout(err), apierrors.IsTooManyRequests(err),
		errors.As(err, &dialing), errors.As(err, &request) && !errors.Is(err, context.Canceled):
		return &Error{NoCluster, b.host, "see whether the API server runs, or say where it is with KUBECONFIG or Options", err}
	case strings.Contains(err.Error(), "error dialing backend"), strings.Contains(err.Error(), "error sending request"):
		// What the API server says of a kubelet, of which the client library keeps only the text.
		return &Error{NoNode, b.namespace, "see whether the kubelet of the pod's node runs", err}
	default:
		return err
	}
}

// kindOf returns what kind of object an answer of the API server is about.
func kindOf(err error) string {
	if s := apierrors.APIStatus(nil); errors.As(err, &s) && s.Status().Details != nil {
		return s.Status().Details.Kind
	}
	return ""
}

// refusal names the problem when the API server refuses to make a pod.
func (b *Backend) refusal(name string, err error) error {
	msg := err.Error()
	switch {
	case apierrors.IsAlreadyExists(err):
		return &Error{NameTaken, name, "remove the pod of that name", err}
	case strings.Contains(msg, "violates PodSecurity"):
		return &Error{BadPod, name, "change Options.Template or Options.PodSecurity, or the namespace's Pod Security level", err}
	case strings.Contains(msg, "exceeded quota"):
		return &Error{NoRoom, name, "raise the namespace's quota, or lower Options.Limits", err}
	case strings.Contains(msg, "RuntimeClass"):
		return &Error{BadPod, name, "create the RuntimeClass, or change Options.RuntimeClass", err}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsNotFound(err):
		return &Error{BadPod, name, "change Options.Template, Options.Namespace or Config", err}
	}
	return b.clusterError(err)
}

// unanswered returns err, or why ctx ended if that was the reason for it.
func unanswered(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
