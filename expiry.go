package sandbox

import (
	"context"
	"time"
)

// scheduleLocked sets the timer for when mb may be due to expire.
func (mb *member) scheduleLocked() {
	if mb.m.closed {
		return
	}
	if due, ok := mb.dueLocked(); ok {
		mb.timer = time.AfterFunc(time.Until(due), mb.expire)
	}
}

// dueLocked returns when mb expires if nothing happens with it until then. What
// runs now counts as happening, so then it has to be asked again.
func (mb *member) dueLocked() (due time.Time, ok bool) {
	if idle := mb.idleTime; idle > 0 {
		due, ok = mb.used.Add(idle), true
		if mb.running > 0 {
			due = time.Now().Add(idle)
		}
	}
	if end := mb.box.Info().ExpiresAt; !end.IsZero() && (!ok || end.Before(due)) {
		due, ok = end, true
	}
	return due, ok
}

// expire removes mb if it is due.
func (mb *member) expire() {
	m := mb.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.members[mb.key] != mb {
		return
	}
	if due, _ := mb.dueLocked(); time.Now().Before(due) {
		mb.scheduleLocked()
		return
	}
	m.observed.sandbox(context.Background(), Observer.SandboxExpired, mb.box.event())
	mb.box.retire(SandboxClosing) // so that GetOrCreate makes another from now on
	m.background.Go(func() { m.removeByItself(mb) })
}

// replaceLocked takes the key from mb, which has died or is given up, and removes
// it in the background.
func (m *Manager) replaceLocked(mb *member) {
	m.dropLocked(mb)
	m.background.Go(func() { m.removeByItself(mb) })
}

// dropLocked takes the key from mb, which is then only leaving.
func (m *Manager) dropLocked(mb *member) {
	delete(m.members, mb.key)
	m.leaving[mb] = struct{}{}
}

// removeByItself removes mb without anybody having asked.
func (m *Manager) removeByItself(mb *member) {
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if m.opts.CloseTime > 0 {
		ctx, cancel = context.WithTimeout(ctx, m.opts.CloseTime)
	}
	defer cancel()
	err := m.remove(ctx, mb)
	if err == nil {
		return
	}
	logError(m.opts.Logger, "sandbox not removed; this will be tried again", "sandbox", mb.id,
		"owner", mb.key.Owner, "namespace", mb.key.Namespace, "name", mb.key.Name, "in", againTime, "error", err)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		mb.timer = time.AfterFunc(againTime, func() { m.removeAgain(mb) })
	}
}

// againTime is how long after a removal that failed the next one is tried.
const againTime = 30 * time.Second

func (m *Manager) removeAgain(mb *member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.background.Go(func() { m.removeByItself(mb) })
	}
}

// remove closes the sandbox of mb and forgets it.
func (m *Manager) remove(ctx context.Context, mb *member) error {
	select {
	case <-mb.ready:
	case <-ctx.Done():
		return &Error{Op: "remove", Sandbox: mb.id, Err: ctx.Err()}
	}
	if mb.box == nil {
		return nil // it was never created, and has been forgotten
	}
	if err := mb.box.Close(ctx); err != nil {
		return err
	}
	m.records.forgetAll(mb.box)
	m.mu.Lock()
	defer m.mu.Unlock()
	if mb.timer != nil {
		mb.timer.Stop()
	}
	m.forgetLocked(mb)
	return nil
}
