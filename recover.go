package sandbox

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"time"

	"github.com/sandbox-go/sandbox/backend"
)

// The labels by which a Manager finds the key and the options of a sandbox again.
const (
	ownLabels      = "sandbox-go."
	labelOwner     = ownLabels + "owner"
	labelNamespace = ownLabels + "namespace"
	labelName      = ownLabels + "name"
	labelOptions   = ownLabels + "options" // keptOptions
)

// userLabels returns labels without the library's own.
func userLabels(labels map[string]string) map[string]string {
	labels = maps.Clone(labels)
	maps.DeleteFunc(labels, func(name, _ string) bool { return strings.HasPrefix(name, ownLabels) })
	return labels
}

func (mb *member) label(cfg *Config) {
	if cfg.Labels == nil {
		cfg.Labels = make(map[string]string)
	}
	cfg.Labels[labelOwner] = mb.key.Owner
	cfg.Labels[labelNamespace] = mb.key.Namespace
	cfg.Labels[labelName] = mb.key.Name
	kept := keptOptions{IdleTime: mb.opts.IdleTime, MaxRunning: mb.opts.MaxRunning, Records: mb.opts.Records}
	if text, err := json.Marshal(kept); err == nil && kept != (keptOptions{}) {
		cfg.Labels[labelOptions] = string(text)
	}
}

// keptOptions are the CreateOptions beside the Config, as a label has them.
type keptOptions struct {
	IdleTime   time.Duration `json:"idle_time_ns,omitempty"`
	MaxRunning int           `json:"max_running,omitempty"`
	Records    int           `json:"records,omitempty"`
}

// Recover reattaches to the sandboxes that an earlier process of the service left
// running, each under its key and with its CreateOptions. Where the backend keeps none
// (Info.Backend.Recover), it does nothing. Call it before anything else. It recovers
// what it can even when it returns an error; a sandbox whose key is in use is removed.
// Limits do not apply to what it recovers, but expiry does.
func (m *Manager) Recover(ctx context.Context) error {
	recoverer, ok := m.backend.(backend.Recoverer)
	if !ok {
		if m.backend.Info().Recover {
			return &Error{Op: "recover", Err: errHidden("Recover", m.backend, "backend.Recoverer")}
		}
		return nil
	}
	recovered, err := recoverer.Recover(ctx)
	for _, o := range recovered {
		m.adopt(ctx, o)
	}
	if err != nil {
		return &Error{Op: "recover", Err: err}
	}
	return nil
}

// adopt makes a member of a sandbox that exists.
func (m *Manager) adopt(ctx context.Context, o backend.Recovered) {
	labels := o.Config.Labels
	m.mu.Lock()
	mb := m.newMemberLocked(Key{Owner: labels[labelOwner], Namespace: labels[labelNamespace], Name: labels[labelName]}, o.Config.ID)
	m.mu.Unlock()
	if mb.key.Name == "" {
		mb.key.Name = mb.id
	}
	var kept keptOptions
	_ = json.Unmarshal([]byte(labels[labelOptions]), &kept) // without them the defaults hold
	opts := CreateOptions{Config: *o.Config, IdleTime: kept.IdleTime, MaxRunning: kept.MaxRunning, Records: kept.Records}
	mb.box = openBox(m.backend.Info(), o.Instance, o.CreatedAt, mb.setOptions(opts), mb)
	mb.box.begin(ctx, Observer.SandboxRecovered)
	mb.abandon = func(error) {}
	close(mb.ready)

	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.members[mb.key] != nil {
		m.leaving[mb] = struct{}{}
		if !m.closed {
			m.background.Go(func() { m.removeByItself(mb) })
		}
		return
	}
	m.members[mb.key] = mb
	mb.scheduleLocked()
}
