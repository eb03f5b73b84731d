package sandbox

import (
	"context"
	"encoding/json"
	"errors"
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

func (en *entry) label(cfg *Config) {
	if cfg.Labels == nil {
		cfg.Labels = make(map[string]string)
	}
	cfg.Labels[labelOwner] = en.key.Owner
	cfg.Labels[labelNamespace] = en.key.Namespace
	cfg.Labels[labelName] = en.key.Name
	kept := keptOptions{IdleTime: en.opts.IdleTime, MaxRunning: en.opts.MaxRunning, Records: en.opts.Records}
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
// what it can even when it returns an error; a sandbox whose key is in use is removed, and so
// is one that came of ManagerOptions.Warm.
// After Close the error is ErrClosed, and nothing of what it recovers is left.
// Limits do not apply to what it recovers, but expiry does.
func (m *Manager) Recover(ctx context.Context) error {
	recoverer, ok := m.backend.(backend.Recoverer)
	if !ok {
		if m.backend.Info().Recover {
			return &Error{Op: "recover", Err: errHidden("Recover", m.backend, "backend.Recoverer")}
		}
		return nil
	}
	m.mu.Lock()
	closed := m.closed
	m.mu.Unlock()
	if closed {
		return &Error{Op: "recover", Err: ErrClosed}
	}
	recovered, err := recoverer.Recover(ctx)
	for _, o := range recovered {
		err = errors.Join(err, m.adopt(ctx, o))
	}
	if err != nil {
		return &Error{Op: "recover", Err: err}
	}
	return nil
}

// adopt makes an entry of a sandbox that exists. It removes one that a Close which came
// meanwhile has not seen.
func (m *Manager) adopt(ctx context.Context, o backend.Recovered) error {
	labels := o.Config.Labels
	m.mu.Lock()
	en := m.newEntryLocked(Key{Owner: labels[labelOwner], Namespace: labels[labelNamespace], Name: labels[labelName]}, o.Config.ID)
	m.mu.Unlock()
	if en.key.Name == "" {
		en.key.Name = en.id
	}
	var kept keptOptions
	_ = json.Unmarshal([]byte(labels[labelOptions]), &kept) // without them the defaults hold
	opts := CreateOptions{Config: *o.Config, IdleTime: kept.IdleTime, MaxRunning: kept.MaxRunning, Records: kept.Records}
	en.untold = labels[labelWarm] != ""
	en.box = sandboxOf(m.backend.Info(), o.Instance, o.CreatedAt, en.setOptions(opts), en)
	if err := en.box.openEgress(ctx); err != nil {
		en.box.end()
		m.fail(en, err)
		return errors.Join(err, discardSandbox(o.Instance))
	}
	en.box.begin(ctx, Observer.SandboxRecovered)
	en.cancelCreate = func(error) {}
	close(en.ready)

	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		m.removing[en] = struct{}{}
		m.mu.Unlock()
		err := m.remove(ctx, en)
		m.mu.Lock()
		return errors.Join(ErrClosed, err)
	case en.untold || m.entries[en.key] != nil:
		m.removing[en] = struct{}{}
		m.background.Go(func() { m.removeByItself(en) })
	default:
		m.entries[en.key] = en
		en.scheduleLocked()
	}
	return nil
}
