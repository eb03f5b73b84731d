package host

import "sync"

// Live are the processes of a sandbox of which something may be left. The zero value is
// empty. Its methods may be called concurrently.
type Live[P interface{ Empty() <-chan struct{} }] struct {
	mu  sync.Mutex // guards all
	all []P
}

// Add adds p, and forgets those of which nothing is left.
func (l *Live[P]) Add(p P) {
	l.mu.Lock()
	defer l.mu.Unlock()
	live := l.all[:0]
	for _, q := range l.all {
		select {
		case <-q.Empty():
		default:
			live = append(live, q)
		}
	}
	clear(l.all[len(live):])
	l.all = append(live, p)
}

// Take returns all, and forgets them.
func (l *Live[P]) Take() []P {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}
