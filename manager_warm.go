package sandbox

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/sandbox-go/sandbox/backend"
)

// A Warm is sandboxes that a Manager has ready before they are asked for.
type Warm struct {
	// Config is what they are made of. A sandbox is one of them if its own Config says
	// the same, but for the ID and the Labels. Without a Lifetime it has the manager's.
	Config Config

	// Count is how many are ready, while there is room for them; 0 is none.
	Count int
}

// How long after a warm sandbox could not be made the next is tried: longer each time.
const (
	minWarmAgain = time.Second
	maxWarmAgain = time.Minute
)

// warmAge is which part of its Lifetime a warm sandbox may be old.
const warmAge = 10

// labelWarm is on what was made before it was asked for. It has no key, also when it has
// been handed out.
const labelWarm = ownLabels + "warm"

// A warm is a sandbox that is ready.
type warm struct {
	cfg      Config
	instance backend.Instance
	created  time.Time
	taken    chan struct{} // closed when it is not in Manager.ready any more
}

// usable reports whether w lives, and has most of its Lifetime left.
func (w *warm) usable() bool {
	select {
	case <-w.instance.Gone():
		return false
	default:
	}
	return w.cfg.Lifetime == 0 || time.Since(w.created) < w.cfg.Lifetime/warmAge
}

// keepWarm has one warm sandbox of cfg ready, until ctx ends.
func (m *Manager) keepWarm(ctx context.Context, cfg Config) {
	for again := minWarmAgain; m.reserveWarm(ctx); {
		w, err := m.makeWarm(ctx, cfg)
		if err != nil {
			m.releaseWarm()
			if ctx.Err() != nil {
				return
			}
			logError(m.opts.Logger, "no warm sandbox could be made; this will be tried again", "in", again, "error", err)
			select {
			case <-time.After(again):
			case <-ctx.Done():
				return
			}
			again = min(2*again, maxWarmAgain)
			continue
		}
		again = minWarmAgain
		m.mu.Lock()
		m.ready = append(m.ready, w)
		m.roomLocked()
		m.mu.Unlock()
		var old <-chan time.Time
		if w.cfg.Lifetime > 0 {
			old = time.After(w.cfg.Lifetime / warmAge)
		}
		select {
		case <-w.taken:
			continue
		case <-w.instance.Gone():
		case <-old:
		case <-ctx.Done():
		}
		m.mu.Lock()
		ours := m.withdrawLocked(w)
		m.mu.Unlock()
		if ours {
			m.discardWarm(w)
		}
	}
}

func (m *Manager) makeWarm(ctx context.Context, cfg Config) (*warm, error) {
	own := cloneConfig(cfg, newID("sbx_"))
	if err := validateConfig(&own); err != nil {
		return nil, err
	}
	own.Labels = map[string]string{labelWarm: "true"}
	instance, err := newInstance(ctx, m.backend, &own)
	if err != nil {
		return nil, err
	}
	return &warm{own, instance, time.Now(), make(chan struct{})}, nil
}

// totalLocked is how many sandboxes there are, or are about to be.
func (m *Manager) totalLocked() int { return len(m.entries) + len(m.removing) + m.warm }

// givingWayLocked is how many sandboxes that were warm are being removed: a sandbox that
// is asked for waits for that.
func (m *Manager) givingWayLocked() (n int) {
	for en := range m.removing {
		if en.untold && !en.failed {
			n++
		}
	}
	return n
}

// roomLocked tells those who wait for room to look again.
func (m *Manager) roomLocked() {
	close(m.room)
	m.room = make(chan struct{})
}

// reserveWarm waits for room for one more warm sandbox, and takes it. It reports false
// when ctx ends before.
func (m *Manager) reserveWarm(ctx context.Context) bool {
	for ctx.Err() == nil {
		m.mu.Lock()
		room := m.room
		if m.opts.MaxSandboxes == 0 || m.totalLocked() < m.opts.MaxSandboxes {
			m.warm++
			m.mu.Unlock()
			return true
		}
		m.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
		}
	}
	return false
}

// releaseWarm gives the room of a warm sandbox back.
func (m *Manager) releaseWarm() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.warm--
	m.roomLocked()
}

// withdrawLocked takes w from those that are ready, and reports whether it was there.
func (m *Manager) withdrawLocked(w *warm) bool {
	n := slices.Index(m.ready, w)
	if n < 0 {
		return false
	}
	m.ready = slices.Delete(m.ready, n, n+1)
	close(w.taken)
	return true
}

// takeWarm returns a warm sandbox that cfg could have been made of, or nil. It is en's.
func (m *Manager) takeWarm(en *entry, cfg *Config) *warm {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.ready {
		if !m.closed && w.usable() && sameConfig(w.cfg, *cfg) {
			m.withdrawLocked(w)
			m.warm--
			m.roomLocked()
			m.renameLocked(en, w.cfg.ID)
			return w
		}
	}
	return nil
}

// renameLocked gives en another id, and the key that it has by its id.
func (m *Manager) renameLocked(en *entry, id string) {
	if en.key.Name == en.id && m.entries[en.key] == en {
		delete(m.entries, en.key)
		en.key.Name = id
		m.entries[en.key] = en
	}
	en.id = id
}

// sameConfig reports whether two sandboxes are made of the same.
func sameConfig(a, b Config) bool {
	normal := func(c Config) Config {
		c.ID, c.Labels = "", nil
		if len(c.Env) == 0 {
			c.Env = nil
		}
		if len(c.Mounts) == 0 {
			c.Mounts = nil
		}
		return c
	}
	return reflect.DeepEqual(normal(a), normal(b))
}

// makeRoom removes warm sandboxes until there is room for one that is being made, which
// counts already. It waits for those that are being made themselves.
func (m *Manager) makeRoom(ctx context.Context) error {
	for {
		m.mu.Lock()
		if m.opts.MaxSandboxes == 0 || m.warm+m.givingWayLocked() == 0 || m.totalLocked() <= m.opts.MaxSandboxes {
			m.mu.Unlock()
			return nil
		}
		room := m.room
		var w *warm
		if len(m.ready) > 0 {
			w = m.ready[0]
			m.withdrawLocked(w)
		}
		m.mu.Unlock()
		if w != nil {
			m.discardWarm(w)
			continue
		}
		select {
		case <-room:
		case <-ctx.Done():
			return &Error{Op: "create", Err: ctx.Err()}
		}
	}
}

// discardWarm removes w, which has been withdrawn. Where that fails it is tried again, as
// for every sandbox that the manager removes by itself.
func (m *Manager) discardWarm(w *warm) {
	m.mu.Lock()
	en := m.discardLocked(w)
	m.mu.Unlock()
	m.removeByItself(en)
}

// discardLocked makes w an entry that is only to be removed, and of which no observer is
// told.
func (m *Manager) discardLocked(w *warm) *entry {
	en := m.newEntryLocked(Key{}, w.cfg.ID)
	en.untold = true
	en.box = sandboxOf(m.backend.Info(), w.instance, w.created, en.setOptions(CreateOptions{Config: w.cfg}), en)
	en.cancelCreate = func(error) {}
	close(en.ready)
	m.removing[en] = struct{}{}
	m.warm--
	m.roomLocked()
	return en
}

// startWarm begins to keep warm sandboxes.
func (m *Manager) startWarm() {
	var ctx context.Context
	ctx, m.stopWarm = context.WithCancel(context.Background())
	for _, warm := range m.opts.Warm {
		cfg := cloneConfig(warm.Config, "")
		if cfg.Lifetime == 0 {
			cfg.Lifetime = m.opts.Lifetime
		}
		for range warm.Count {
			m.background.Go(func() { m.keepWarm(ctx, cfg) })
		}
	}
}

// endWarmLocked stops keeping them, and has those that are ready be removed with the
// others.
func (m *Manager) endWarmLocked() {
	m.stopWarm()
	for len(m.ready) > 0 {
		w := m.ready[0]
		m.withdrawLocked(w)
		m.discardLocked(w)
	}
}

// cloneConfig returns a copy of cfg with that ID.
func cloneConfig(cfg Config, id string) Config {
	cfg.ID = id
	cfg.Env = maps.Clone(cfg.Env)
	cfg.Labels = maps.Clone(cfg.Labels)
	cfg.Mounts = slices.Clone(cfg.Mounts)
	if cfg.Egress != nil {
		cfg.Egress = new(*cfg.Egress)
		cfg.Egress.Allow = slices.Clone(cfg.Egress.Allow)
	}
	return cfg
}
