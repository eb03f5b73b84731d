package kubernetes

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent"
	"github.com/sandbox-go/sandbox/internal/agent/contained"
	"github.com/sandbox-go/sandbox/internal/workspace"
)

// The names of a pod's volumes.
const (
	agentVolume     = "sandbox-agent"
	workspaceVolume = "sandbox-workspace"
	tmpVolume       = "sandbox-tmp"
)

// stopGrace is how long a pod may take to end, in seconds: its first process ends at once.
const stopGrace int64 = 1

// unsupported returns an error where cfg asks for what a pod cannot be given.
func (b *Backend) unsupported(cfg *backend.Config) error {
	refuse := func(what string) error { return fmt.Errorf("kubernetes: %w: %s", errors.ErrUnsupported, what) }
	uid, _, err := user(cfg.User)
	switch {
	case cfg.Network != "":
		return refuse("Config.Network: a pod has the cluster's network, which NetworkPolicies bound")
	case cfg.Egress != nil:
		return refuse("Config.Egress: a pod has another way out, the cluster's network")
	case len(cfg.Mounts) > 0:
		return refuse("Config.Mounts: name volumes in Options.Template")
	case cfg.Limits.PIDs > 0 || b.opts.Limits.PIDs > 0:
		return &Error{NoLimit, "Limits.PIDs", "leave it 0, and have the kubelet's podPidsLimit bound the processes of pods", errors.ErrUnsupported}
	case b.opts.PodSecurity == Restricted && err != nil:
		return fmt.Errorf("kubernetes: %w: Config.User: %w", errors.ErrUnsupported, err)
	case b.opts.PodSecurity == Restricted && uid == 0:
		return refuse("Config.User: a pod of the level restricted has no root")
	}
	return nil
}

// user returns the numbers of a user as Config.User names it.
func user(name string) (uid, gid int64, err error) {
	first, second, hasGroup := strings.Cut(cmp.Or(name, workspace.User), ":")
	uid, err = strconv.ParseInt(first, 10, 32)
	gid = uid
	if hasGroup && err == nil {
		gid, err = strconv.ParseInt(second, 10, 32)
	}
	if err != nil || uid < 0 || gid < 0 {
		return 0, 0, fmt.Errorf("%q: name it by its numbers, as in 1000:1000", name)
	}
	return uid, gid, nil
}

// pod returns the pod of cfg.
func (b *Backend) pod(cfg *backend.Config) (*corev1.Pod, error) {
	config, err := json.Marshal(cfg)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: keep the sandbox's config: %w", err)
	}
	pod := b.defaults(cfg)
	if b.opts.Template != nil {
		if pod, err = merge(pod, b.opts.Template); err != nil {
			return nil, &Error{BadPod, "Options.Template", "let it be what a strategic merge patch may be", err}
		}
	}
	if s := &pod.Spec; s.HostNetwork || s.HostPID || s.HostIPC || s.ShareProcessNamespace != nil && *s.ShareProcessNamespace {
		return nil, &Error{BadPod, "Options.Template", "leave hostNetwork, hostPID, hostIPC and shareProcessNamespace false", errors.ErrUnsupported}
	}
	pod.Name, pod.GenerateName, pod.Namespace = podName(cfg.ID), "", b.namespace
	set(&pod.Labels, labelOwner, ownerLabel(b.opts.Owner))
	set(&pod.Labels, labelID, cfg.ID)
	set(&pod.Labels, labelHolder, b.replica)
	set(&pod.Annotations, annotationOwner, b.opts.Owner)
	set(&pod.Annotations, annotationConfig, string(config))
	if err := b.fix(&pod.Spec, cfg); err != nil {
		return nil, err
	}
	return pod, nil
}

func set(m *map[string]string, key, value string) {
	if *m == nil {
		*m = make(map[string]string)
	}
	(*m)[key] = value
}

// merge returns pod with what the template names in its place.
func merge(pod *corev1.Pod, template *corev1.PodTemplateSpec) (*corev1.Pod, error) {
	base, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	patch, err := json.Marshal(&corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec})
	if err != nil {
		return nil, err
	}
	// What a Go struct always has in its JSON, and a patch would take for a deletion.
	var fields map[string]any
	if err := json.Unmarshal(patch, &fields); err != nil {
		return nil, err
	}
	dropNulls(fields)
	delete(fields, "status")
	if patch, err = json.Marshal(fields); err != nil {
		return nil, err
	}
	merged, err := strategicpatch.StrategicMergePatch(base, patch, corev1.Pod{})
	if err != nil {
		return nil, err
	}
	result := new(corev1.Pod)
	return result, json.Unmarshal(merged, result)
}

func dropNulls(fields map[string]any) {
	for key, value := range fields {
		switch value := value.(type) {
		case nil:
			delete(fields, key)
		case map[string]any:
			dropNulls(value)
		}
	}
}

// defaults returns the pod before the template.
func (b *Backend) defaults(cfg *backend.Config) *corev1.Pod {
	no := false
	resources := resources(contained.FillLimits(cfg.Limits, b.opts.Limits))
	spec := corev1.PodSpec{
		AutomountServiceAccountToken: &no,
		EnableServiceLinks:           &no,
		SecurityContext:              &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		InitContainers: []corev1.Container{{
			Name:            InitContainerName,
			SecurityContext: b.security(cfg, false),
			Resources:       resources,
		}},
		Containers: []corev1.Container{{
			Name:            ContainerName,
			SecurityContext: b.security(cfg, true),
			Resources:       resources,
		}},
	}
	if b.opts.RuntimeClass != "" {
		spec.RuntimeClassName = &b.opts.RuntimeClass
	}
	return &corev1.Pod{Spec: spec}
}

// security returns the security context of a container, of which the agent may be root
// with what it needs.
func (b *Backend) security(cfg *backend.Config, isSandbox bool) *corev1.SecurityContext {
	no, nonRoot := false, true
	c := &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no,
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	if isSandbox {
		c.ReadOnlyRootFilesystem = &b.opts.ReadOnly
	}
	uid, gid, err := user(cfg.User)
	if err != nil || uid == 0 {
		uid, gid = 1000, 1000 // it is for Baseline, and the init container's
	}
	if b.opts.PodSecurity == Baseline && isSandbox {
		uid, gid, nonRoot = 0, 0, false
		c.Capabilities.Add = []corev1.Capability{"CHOWN", "KILL", "SETGID", "SETPCAP", "SETUID"}
	}
	c.RunAsUser, c.RunAsGroup, c.RunAsNonRoot = &uid, &gid, &nonRoot
	return c
}

// requestShare is the part of its limits that a sandbox requests: most are idle.
const requestShare = 0.1

// resources returns the limits of a container, and what it requests.
func resources(l backend.Limits) corev1.ResourceRequirements {
	amounts := func(share float64) corev1.ResourceList {
		list := make(corev1.ResourceList)
		if l.Memory > 0 {
			list[corev1.ResourceMemory] = *resource.NewQuantity(int64(math.Ceil(float64(l.Memory)*share)), resource.BinarySI)
		}
		if l.CPUs > 0 {
			list[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(math.Ceil(l.CPUs*1000*share)), resource.DecimalSI)
		}
		return list
	}
	return corev1.ResourceRequirements{Limits: amounts(1), Requests: amounts(requestShare)}
}

// fix gives a pod what no template may change.
func (b *Backend) fix(spec *corev1.PodSpec, cfg *backend.Config) error {
	spec.RestartPolicy = corev1.RestartPolicyNever
	grace := stopGrace
	spec.TerminationGracePeriodSeconds = &grace
	if cfg.Lifetime > 0 {
		seconds := int64(math.Ceil(cfg.Lifetime.Seconds()))
		spec.ActiveDeadlineSeconds = &seconds
	}
	init, sandbox := containerOf(spec.InitContainers, InitContainerName), containerOf(spec.Containers, ContainerName)
	sandbox.Image = cmp.Or(cfg.Image, b.opts.Image, sandbox.Image, DefaultImage)
	sandbox.Command = agent.InitCommand(agentPath, cfg.Lifetime, b.opts.AbandonAfter)
	sandbox.Args, sandbox.WorkingDir = nil, "/"
	sandbox.LivenessProbe, sandbox.ReadinessProbe, sandbox.StartupProbe, sandbox.Lifecycle = nil, nil, nil, nil
	sandbox.TTY, sandbox.Stdin = false, false
	init.Image = cmp.Or(b.opts.AgentImage, init.Image, sandbox.Image)
	init.Command = []string{"sh", "-c", install, "sh"}
	for _, arch := range architectures {
		hash, err := agent.Hash(arch)
		if err != nil {
			return fmt.Errorf("kubernetes: %w", err)
		}
		init.Command = append(init.Command, hash)
	}
	init.Args, init.WorkingDir = nil, "/"
	init.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	mount(init, corev1.VolumeMount{Name: agentVolume, MountPath: agentDir})
	for _, m := range []corev1.VolumeMount{
		{Name: agentVolume, MountPath: agentDir, ReadOnly: true},
		{Name: workspaceVolume, MountPath: workspace.Dir},
		{Name: workspaceVolume, MountPath: workspace.Alias},
		{Name: tmpVolume, MountPath: "/tmp"},
	} {
		mount(sandbox, m)
	}
	tmp := &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}
	if b.opts.TmpSize > 0 {
		tmp.SizeLimit = resource.NewQuantity(b.opts.TmpSize, resource.BinarySI)
	}
	volume(spec, agentVolume, &corev1.EmptyDirVolumeSource{}, true)
	volume(spec, tmpVolume, tmp, false)
	volume(spec, workspaceVolume, &corev1.EmptyDirVolumeSource{}, false)
	return nil
}

// containerOf returns the container of that name, which the defaults have.
func containerOf(all []corev1.Container, name string) *corev1.Container {
	return &all[slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == name })]
}

// mount mounts a volume at its place, whatever was there.
func mount(c *corev1.Container, m corev1.VolumeMount) {
	c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(other corev1.VolumeMount) bool { return other.MountPath == m.MountPath })
	c.VolumeMounts = append(c.VolumeMounts, m)
}

// volume adds a volume. One of that name that the template has, as a claim for the
// workspace, is kept unless it is to be ours.
func volume(spec *corev1.PodSpec, name string, source *corev1.EmptyDirVolumeSource, ours bool) {
	i := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	made := corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: source}}
	switch {
	case i < 0:
		spec.Volumes = append(spec.Volumes, made)
	case ours:
		spec.Volumes[i] = made
	}
}
