package kubernetes

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// differs says in what a pod that this package did not make is other than it is to be, or
// nothing. What a cluster adds to a pod is no difference; what would weaken it is.
func differs(want, got *corev1.PodSpec) string {
	d := difference{}
	d.exactly("hostNetwork", want.HostNetwork, got.HostNetwork)
	d.exactly("hostPID", want.HostPID, got.HostPID)
	d.exactly("hostIPC", want.HostIPC, got.HostIPC)
	d.exactly("shareProcessNamespace", isTrue(want.ShareProcessNamespace), isTrue(got.ShareProcessNamespace))
	d.exactly("automountServiceAccountToken", want.AutomountServiceAccountToken, got.AutomountServiceAccountToken)
	d.exactly("securityContext", want.SecurityContext, got.SecurityContext)
	d.exactly("ephemeralContainers", len(want.EphemeralContainers), len(got.EphemeralContainers))
	d.exactly("the names of volumes", names(want.Volumes, volumeName), names(got.Volumes, volumeName))
	d.containers("containers", want.Containers, got.Containers)
	d.containers("initContainers", want.InitContainers, got.InitContainers)
	d.atLeast("", *want, *got)
	return d.text
}

// A difference is the first that was found.
type difference struct{ text string }

func (d *difference) containers(field string, want, got []corev1.Container) {
	d.exactly("the names of "+field, names(want, containerName), names(got, containerName))
	if d.text != "" {
		return
	}
	for n := range want {
		w, g := &want[n], &got[n]
		of := field + "[" + w.Name + "]."
		d.exactly(of+"securityContext", w.SecurityContext, g.SecurityContext)
		d.exactly(of+"the paths of volumeMounts", names(w.VolumeMounts, mountPath), names(g.VolumeMounts, mountPath))
		d.exactly(of+"volumeDevices", len(w.VolumeDevices), len(g.VolumeDevices))
		d.exactly(of+"envFrom", len(w.EnvFrom), len(g.EnvFrom))
		d.exactly(of+"args", len(w.Args), len(g.Args))
		d.exactly(of+"lifecycle", w.Lifecycle, g.Lifecycle)
		d.exactly(of+"resources", w.Resources, g.Resources)
		d.atLeast(of, *w, *g)
	}
}

// exactly takes what is not the same.
func (d *difference) exactly(field string, want, got any) {
	d.note(equality.Semantic.DeepEqual(want, got), field, want, got)
}

// atLeast takes the field of a struct that lacks something that is wanted.
func (d *difference) atLeast(of string, want, got any) {
	w, g := reflect.ValueOf(want), reflect.ValueOf(got)
	for n := range w.NumField() {
		name, _, _ := strings.Cut(w.Type().Field(n).Tag.Get("json"), ",")
		want, got := w.Field(n).Interface(), g.Field(n).Interface()
		d.note(equality.Semantic.DeepDerivative(want, got), of+name, want, got)
	}
}

func (d *difference) note(same bool, field string, want, got any) {
	if d.text != "" || same {
		return
	}
	w, _ := json.Marshal(want)
	g, _ := json.Marshal(got)
	d.text = fmt.Sprintf("%s is %s, and is to be %s", field, g, w)
}

func names[T any](all []T, name func(*T) string) []string {
	list := make([]string, len(all))
	for n := range all {
		list[n] = name(&all[n])
	}
	return list
}

func containerName(c *corev1.Container) string { return c.Name }
func volumeName(v *corev1.Volume) string       { return v.Name }
func mountPath(m *corev1.VolumeMount) string   { return m.MountPath }

func isTrue(b *bool) bool { return b != nil && *b }
