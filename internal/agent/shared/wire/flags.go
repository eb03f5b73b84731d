package wire

// A ServeFlag is a word in the command line of serve, which changes what it does before
// it serves.
type ServeFlag string

const (
	// Fresh: no command ever ran in the container.
	Fresh ServeFlag = "fresh"

	// TellEnvironment has the agent send Environment.
	TellEnvironment ServeFlag = "environment"

	// Alone has the agent kill another agent of the container first, with all that it
	// has started.
	Alone ServeFlag = "alone"
)
