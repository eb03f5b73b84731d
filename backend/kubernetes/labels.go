package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
)

// The labels and annotations of what this package makes in a cluster.
const (
	labelPrefix = "sandbox-go.github.io/"
	labelOwner  = labelPrefix + "owner"  // of pods and leases: Options.Owner, or what stands for it
	labelID     = labelPrefix + "id"     // of pods: backend.Config.ID
	labelHolder = labelPrefix + "holder" // of pods: the name of the lease of the process that is connected to it

	annotationOwner  = labelPrefix + "owner"  // Options.Owner
	annotationConfig = labelPrefix + "config" // the backend.Config as JSON

	// Of pods from a warm pool: the uid of the SandboxClaim that the pod was taken by, and
	// when that was made.
	annotationClaim   = labelPrefix + "claim"
	annotationClaimed = labelPrefix + "claimed"
)

// ownerLabel returns what stands for an owner in a label, whose characters and length
// are few.
func ownerLabel(owner string) string {
	if len(validation.IsValidLabelValue(owner)) == 0 {
		return owner
	}
	sum := sha256.Sum256([]byte(owner))
	return "sha256-" + hex.EncodeToString(sum[:16])
}

// owned selects what carries the owner's label.
func (b *Backend) owned() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: labels.Set{labelOwner: ownerLabel(b.opts.Owner)}.String()}
}

// held selects the pods that this process holds.
func (b *Backend) held() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: labels.Set{labelHolder: b.replica}.String()}
}

// podName returns the name of the pod of the sandbox of that id, which has no dash.
func podName(id string) string { return "sandbox-" + strings.ReplaceAll(id, "_", "-") }
