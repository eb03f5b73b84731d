package agent

// Native is [Binary] for the architecture that this is compiled for.
func Native() (program []byte, hash string, err error) { return unpack(arm64) }
