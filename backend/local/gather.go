package local

import "sync"

// A gatherer does something for users, and for all together that ask for it while it is
// done for others: a look through the machine costs as much for one as for many. Its
// methods may be called concurrently.
type gatherer[R any] struct {
	do func(users []int64) map[int64]R

	turn sync.Mutex // held while do runs

	mu   sync.Mutex // guards next
	next *round[R]  // of those who wait for their turn, or nil
}

// A round is one call of do.
type round[R any] struct {
	users []int64
	done  chan struct{}
	of    map[int64]R // once done is closed
}

// ask returns what a call of do that begins from now on has for a user. Whoever is the
// first to wait for the turn makes the call for all.
func (g *gatherer[R]) ask(user int64) R {
	g.mu.Lock()
	first := g.next == nil
	if first {
		g.next = &round[R]{done: make(chan struct{})}
	}
	r := g.next
	r.users = append(r.users, user)
	g.mu.Unlock()
	if first {
		g.turn.Lock()
		g.mu.Lock()
		g.next = nil
		g.mu.Unlock()
		r.of = g.do(r.users)
		close(r.done)
		g.turn.Unlock()
	}
	<-r.done
	return r.of[user]
}
