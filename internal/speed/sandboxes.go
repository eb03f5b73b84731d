package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/httpapi"
	"github.com/sandbox-go/sandbox/internal/benchtest"
)

// inSandbox makes a sandbox, and a server of the HTTP API, and returns what can be done
// there and what ends them, and the backend, which it owns.
func inSandbox(ctx context.Context, b sandbox.Backend) (place, sandbox.Sandbox, func() error, error) {
	sb, err := sandbox.New(ctx, b, nil)
	if err != nil {
		return place{}, nil, nil, errors.Join(err, b.Close(context.WithoutCancel(ctx)))
	}
	manager := sandbox.NewManager(b, nil)
	mux := http.NewServeMux()
	httpapi.New(manager, &httpapi.Options{Authenticate: httpapi.BearerKeys(map[string]string{"key": "speed"})}).Register(mux)
	server := httptest.NewServer(mux)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	end := func() error {
		ctx := context.WithoutCancel(ctx)
		client.CloseIdleConnections()
		server.Close()
		return errors.Join(manager.Close(ctx), sb.Close(ctx), b.Close(ctx))
	}
	content := make([]byte, 1<<10)
	return place{
		echo: timed(func(ctx context.Context) error { return benchtest.Echo(ctx, sb) }),
		call: timed(func(ctx context.Context) error { return call(ctx, client, server.URL) }),
		stream: timed(func(ctx context.Context) error {
			return benchtest.Stream(ctx, sb, sandbox.Command{Argv: zeros, MaxOutput: -1}, streamSize)
		}),
		write: timed(func(ctx context.Context) error { return sb.Files().WriteFile(ctx, "f", content, nil) }),
		read: timed(func(ctx context.Context) error {
			_, err := sb.Files().ReadFile(ctx, "f", nil)
			return err
		}),
		create: func(ctx context.Context) (time.Duration, error) {
			begin := time.Now()
			sb, err := sandbox.New(ctx, b, nil)
			if err != nil {
				return 0, err
			}
			err = benchtest.Echo(ctx, sb)
			took := time.Since(begin)
			return took, errors.Join(err, sb.Close(context.WithoutCancel(ctx)))
		},
	}, sb, end, nil
}

func call(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, "POST", url+"/api/rooms/r/sandbox/exec", strings.NewReader(`{"cmd":"`+shell+`"}`))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer key")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || !strings.Contains(string(body), `hi\n`)) {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return err
}
