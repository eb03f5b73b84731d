package sandbox_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/fake"
)

func ExampleFiles() {
	ctx := context.Background()
	b := fake.New(nil)
	defer b.Close(ctx)
	sb, err := sandbox.New(ctx, b, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close(ctx)
	files := sb.Files()

	err = files.WriteFile(ctx, "src/main.go", []byte("package main\n"), &sandbox.WriteOptions{Parents: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	content, err := files.ReadFile(ctx, "src/main.go", &sandbox.ReadOptions{MaxSize: 1 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s", content)
	for info, err := range files.List(ctx, ".", &sandbox.ListOptions{Recursive: true}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(info.Mode, info.Size, info.Path)
	}
	if _, err := files.Stat(ctx, "go.mod"); errors.Is(err, fs.ErrNotExist) {
		fmt.Println("no go.mod")
	}
	// Output:
	// package main
	// drwxr-xr-x 0 src
	// -rw-r--r-- 13 src/main.go
	// no go.mod
}

func ExampleFiles_Create() {
	ctx := context.Background()
	b := fake.New(nil)
	defer b.Close(ctx)
	sb, err := sandbox.New(ctx, b, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close(ctx)

	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp() // before Close the file is what it was
	w, err := sb.Files().Create(ctx, "lines", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range 3 {
		fmt.Fprintf(w, "line %d\n", i) // Close tells what fails here
	}
	if err := w.Close(); err != nil {
		fmt.Println(err)
		return
	}

	r, err := sb.Files().Open(ctx, "lines", &sandbox.ReadOptions{Offset: 7})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	for lines := bufio.NewScanner(r); lines.Scan(); {
		fmt.Println(lines.Text())
	}
	// Output:
	// line 1
	// line 2
}

func ExampleFiles_CopyIn() {
	ctx := context.Background()
	b := fake.New(nil)
	defer b.Close(ctx)
	sb, err := sandbox.New(ctx, b, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close(ctx)
	project, err := os.MkdirTemp("", "project-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(project)
	if err := os.WriteFile(filepath.Join(project, "go.mod"), []byte("module m\n"), 0o644); err != nil {
		fmt.Println(err)
		return
	}

	err = sb.Files().CopyIn(ctx, project, "project", &sandbox.CopyOptions{
		Progress: func(p sandbox.CopyProgress) { fmt.Println(p.Entries, p.Name) },
		MaxSize:  1 << 30,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	// … and what a command has made of it, back:
	err = sb.Files().CopyOut(ctx, "project", filepath.Join(project, "result"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	content, err := os.ReadFile(filepath.Join(project, "result", "go.mod"))
	fmt.Printf("%s%v\n", content, err)
	// Output:
	// 1 go.mod
	// 1 go.mod
	// module m
	// <nil>
}

func ExampleFS() {
	ctx := context.Background()
	b := fake.New(nil)
	defer b.Close(ctx)
	sb, err := sandbox.New(ctx, b, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close(ctx)
	for _, name := range []string{"site/index.html", "site/style.css"} {
		if err := sb.Files().WriteFile(ctx, name, nil, &sandbox.WriteOptions{Parents: true}); err != nil {
			fmt.Println(err)
			return
		}
	}

	// It is what http.FileServerFS and template.ParseFS take, too.
	pages, err := fs.Glob(sandbox.FS(ctx, sb, "site"), "*.html")
	fmt.Println(pages, err)
	// Output:
	// [index.html] <nil>
}
