package sandbox

import (
	"context"
	"time"
)

// scheduleLocked sets the timer for when en may be due to expire.
func (en *entry) scheduleLocked() {
	if en.m.closed {
		return
	}
	if due, ok := en.dueLocked(); ok {
		en.timer = time.AfterFunc(time.Until(due), en.expire)
	}
}

// dueLocked returns when en expires if nothing happens with it until then. What
// runs now counts as happening, so then it has to be asked again.
func (en *entry) dueLocked() (due time.Time, ok bool) {
	if idle := en.idleTime; idle > 0 {
		due, ok = en.used.Add(idle), true
		if en.running > 0 {
			due = time.Now().Add(idle)
		}
	}
	if end := en.box.Info().ExpiresAt; !end.IsZero() && (!ok || end.Before(due)) {
		due, ok = end, true
	}
	return due, ok
}

// expire removes en if it is due.
func (en *entry) expire() {
	m := en.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.entries[en.key] != en {
		return
	}
	if due, _ := en.dueLocked(); time.Now().Before(due) {
		en.scheduleLocked()
		return
	}
	if event := en.box.event(); event.Info.Status != SandboxClosed { // its user may have closed it
		m.observed.sandbox(context.Background(), Observer.SandboxExpired, event)
	}
	en.box.stop(SandboxClosing) // so that GetOrCreate makes another from now on
	m.background.Go(func() { m.removeByItself(en) })
}

// replaceLocked takes the key from en, which has died or is given up, and removes
// it in the background.
func (m *Manager) replaceLocked(en *entry) {
	m.dropLocked(en)
	m.background.Go(func() { m.removeByItself(en) })
}

// dropLocked takes the key from en, which is then only to be removed.
func (m *Manager) dropLocked(en *entry) {
	delete(m.entries, en.key)
	m.removing[en] = struct{}{}
}

// removeByItself removes en without anybody having asked.
func (m *Manager) removeByItself(en *entry) {
	m.mu.Lock()
	busy := en.removing
	en.removing = true
	m.mu.Unlock()
	if busy { // or it would be tried again twice
		return
	}
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if m.opts.CloseTime > 0 {
		ctx, cancel = context.WithTimeout(ctx, m.opts.CloseTime)
	}
	defer cancel()
	err := m.remove(ctx, en)
	if err == nil {
		return
	}
	logError(m.opts.Logger, "sandbox not removed; this will be tried again", "sandbox", en.id,
		"owner", en.key.Owner, "namespace", en.key.Namespace, "name", en.key.Name, "in", againTime, "error", err)
	m.mu.Lock()
	defer m.mu.Unlock()
	en.removing, en.failed = false, true
	m.roomLocked()
	if m.closed {
		return
	}
	if en.timer != nil {
		en.timer.Stop() // it may be that of an earlier try
	}
	en.timer = time.AfterFunc(againTime, func() { m.removeAgain(en) })
}

// againTime is how long after a removal that failed the next one is tried.
const againTime = 30 * time.Second

func (m *Manager) removeAgain(en *entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.background.Go(func() { m.removeByItself(en) })
	}
}

// remove closes the sandbox of en and forgets it.
func (m *Manager) remove(ctx context.Context, en *entry) error {
	select {
	case <-en.ready:
	case <-ctx.Done():
		m.mu.Lock()
		defer m.mu.Unlock()
		return &Error{Op: "remove", Sandbox: en.id, Err: ctx.Err()}
	}
	if en.box == nil {
		return nil // it was never created, and has been forgotten
	}
	if err := en.box.Close(ctx); err != nil {
		return err
	}
	m.records.forgetAll(en.box)
	m.mu.Lock()
	defer m.mu.Unlock()
	if en.timer != nil {
		en.timer.Stop()
	}
	m.forgetLocked(en)
	return nil
}
