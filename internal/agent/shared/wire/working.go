package wire

import "time"

// workingTime is how often whoever works on an answer says so. It is a fraction of the
// silence that the other side puts up with.
const workingTime = time.Second

// SayWorking calls say with Working again and again, from a goroutine, until stop is
// called. After stop it is not called any more.
func SayWorking(say func(Message)) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(workingTime)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				say(&Working{})
			case <-end:
				return
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}
