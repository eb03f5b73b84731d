module github.com/sandbox-go/sandbox

go 1.26

require (
	github.com/google/go-cmp v0.7.0 // indirect
	go.uber.org/goleak v1.3.0 // indirect
)
