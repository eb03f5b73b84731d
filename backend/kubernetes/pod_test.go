package kubernetes_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/kubernetes"
)

// A refusingServer is an API server that takes leases, and refuses every pod.
type refusingServer struct {
	*httptest.Server
	status metav1.Status // the refusal
	pod    *corev1.Pod   // what was to be made last
}

func newRefusingServer(t *testing.T, status metav1.Status) *refusingServer {
	t.Helper()
	status.Kind, status.APIVersion = "Status", "v1"
	s := &refusingServer{status: status}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/pods"):
			s.pod = new(corev1.Pod)
			if err := json.NewDecoder(r.Body).Decode(s.pod); err != nil {
				t.Error(err)
			}
			w.WriteHeader(int(s.status.Code))
			json.NewEncoder(w).Encode(&s.status)
		case r.Method == http.MethodPost:
			io.Copy(w, r.Body)
		case strings.Contains(r.URL.Path, "/sandboxwarmpools/"):
			if s.status.Details == nil { // as where the API server does not know the kind
				http.NotFound(w, r)
				return
			}
			w.WriteHeader(int(s.status.Code))
			json.NewEncoder(w).Encode(&s.status)
		case r.URL.Query().Get("watch") != "":
			<-r.Context().Done()
		default:
			io.WriteString(w, `{"items": []}`)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// options returns opts for the server.
func (s *refusingServer) options(opts kubernetes.Options) *kubernetes.Options {
	opts.Config = &rest.Config{Host: s.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	return &opts
}

// create tries to make a sandbox and returns the error.
func (s *refusingServer) create(t *testing.T, opts kubernetes.Options, cfg backend.Config) error {
	t.Helper()
	b, err := kubernetes.New(t.Context(), s.options(opts))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close(t.Context())
	cfg.ID = "sbx_1"
	_, err = b.Create(t.Context(), &cfg)
	if err == nil {
		t.Fatal("a pod that was refused is a sandbox")
	}
	return err
}

// An error of the API server says what to change.
func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		code    int32
		reason  metav1.StatusReason
		message string
		want    kubernetes.Problem
	}{
		{409, metav1.StatusReasonAlreadyExists, "pods \"x\" already exists", kubernetes.NameTaken},
		{403, metav1.StatusReasonForbidden, "pods \"x\" is forbidden: violates PodSecurity \"restricted:latest\"", kubernetes.BadPod},
		{403, metav1.StatusReasonForbidden, "pods \"x\" is forbidden: exceeded quota: pods", kubernetes.NoRoom},
		{403, metav1.StatusReasonForbidden, "pods is forbidden: User \"u\" cannot create resource \"pods\"", kubernetes.NoPermission},
		{403, metav1.StatusReasonForbidden, "pod rejected: RuntimeClass \"gvisor\" not found", kubernetes.BadPod},
		{422, metav1.StatusReasonInvalid, "spec.containers[0].image: Required value", kubernetes.BadPod},
	} {
		s := newRefusingServer(t, metav1.Status{Status: "Failure", Code: test.code, Reason: test.reason, Message: test.message})
		if err := s.create(t, kubernetes.Options{}, backend.Config{}); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.message, err, test.want)
		}
	}
}

var refused = metav1.Status{Status: "Failure", Code: 422, Reason: metav1.StatusReasonInvalid, Message: "refused"}

// The template replaces defaults, and not what makes the pod a sandbox.
func TestTemplate(t *testing.T) {
	s := newRefusingServer(t, refused)
	s.create(t, kubernetes.Options{Template: &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "blue", "sandbox-go.github.io/owner": "somebody"}},
		Spec: corev1.PodSpec{
			NodeSelector:  map[string]string{"pool": "sandboxes"},
			RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{
				Name: kubernetes.ContainerName, Command: []string{"/bin/false"},
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("7m")}},
			}, {Name: "sidecar", Image: "side"}},
			Volumes: []corev1.Volume{{Name: "sandbox-workspace", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}}},
		},
	}}, backend.Config{Lifetime: 1500 * time.Millisecond, Image: "img"})
	p := s.pod
	if p.Labels["team"] != "blue" || p.Labels["sandbox-go.github.io/owner"] != "default" {
		t.Errorf("labels %v", p.Labels)
	}
	if p.Spec.NodeSelector["pool"] != "sandboxes" || p.Spec.RestartPolicy != corev1.RestartPolicyNever || len(p.Spec.Containers) != 2 {
		t.Errorf("spec %+v", p.Spec)
	}
	if d := p.Spec.ActiveDeadlineSeconds; d == nil || *d != 2 {
		t.Errorf("deadline %v", d)
	}
	for _, c := range p.Spec.Containers {
		if c.Name != kubernetes.ContainerName {
			continue
		}
		if c.Image != "img" || c.Command[0] != "/.sandbox/agent" || c.Resources.Requests.Cpu().String() != "7m" || c.Resources.Limits.Cpu().String() != "1" {
			t.Errorf("container %+v", c)
		}
		if *c.SecurityContext.RunAsUser != 1000 || !*c.SecurityContext.RunAsNonRoot || *c.SecurityContext.AllowPrivilegeEscalation {
			t.Errorf("security context %+v", c.SecurityContext)
		}
	}
	for _, v := range p.Spec.Volumes {
		if v.Name == "sandbox-workspace" && v.PersistentVolumeClaim == nil {
			t.Errorf("the workspace is %+v", v)
		}
	}
}

// What a pod cannot be given is refused, and no pod is made.
func TestUnsupported(t *testing.T) {
	for name, test := range map[string]struct {
		opts kubernetes.Options
		cfg  backend.Config
	}{
		"a network":               {cfg: backend.Config{Network: "none"}},
		"egress":                  {cfg: backend.Config{Egress: new(backend.Egress)}},
		"a mount":                 {cfg: backend.Config{Mounts: []backend.Mount{{Source: "/etc", Target: "/etc"}}}},
		"a limit of processes":    {cfg: backend.Config{Limits: backend.Limits{PIDs: 10}}},
		"a user's name":           {cfg: backend.Config{User: "www-data"}},
		"root":                    {cfg: backend.Config{User: "0"}},
		"the network of a node":   {opts: kubernetes.Options{Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{HostNetwork: true}}}},
		"the processes of a node": {opts: kubernetes.Options{Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{HostPID: true}}}},
	} {
		s := newRefusingServer(t, refused)
		if err := s.create(t, test.opts, test.cfg); !errors.Is(err, errors.ErrUnsupported) || s.pod != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// At the level restricted commands have the agent's user, and cannot look into its processes.
func TestAgentIsClosedToCommands(t *testing.T) {
	t.Parallel()
	sb := newSandbox(t, newBackend(t, kubernetes.Options{}), nil)
	got := output(t, sb, `for p in /proc/[0-9]*; do
		case $(cat $p/comm) in
		agent | sandbox-agent) echo seen ;;
		*) continue ;;
		esac
		for file in environ maps mem stack syscall; do
			head -c 1 $p/$file && echo "read $p/$file"
		done
		for link in exe cwd root ns/mnt; do
			readlink $p/$link && echo "read $p/$link"
		done
		[ -z "$(ls $p/fd)" ] || echo "read $p/fd"
	done 2>/dev/null
	kill -0 1 && echo "may signal the first process"
	true`)
	if lines := strings.Split(got, "\n"); len(lines) < 4 || strings.Contains(got, "read ") {
		t.Errorf("of the agent's processes:\n%s", got)
	}
	if protected := sb.Info().Backend.ProtectedAgent; protected == strings.Contains(got, "may signal") {
		t.Errorf("Info says protected: %v, but:\n%s", protected, got)
	}
}
