module github.com/sandbox-go/sandbox

go 1.26
