//go:build unix && !linux

package pump

// fionread asks how many bytes are in a pipe (sys/filio.h: _IOR('f', 127, int)).
const fionread = 0x4004667f

// enlarge does nothing: the kernel sizes pipes by itself.
func enlarge(int) {}
