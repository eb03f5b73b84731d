package docker

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/moby/client"
)

// dial returns a client of the engine at host, or of the one that the docker
// command would use when host is empty. It does not connect yet.
func dial(host string, opts ...client.Opt) (*client.Client, error) {
	opts = append(opts, client.WithAPIVersionFromEnv())
	switch name := contextName(); {
	case host != "":
		if strings.HasPrefix(host, "tcp://") {
			opts = append(opts, client.WithTLSClientConfigFromEnv())
		}
		opts = append(opts, client.WithHost(host))
	case os.Getenv(client.EnvOverrideHost) != "" || name == "default":
		host = os.Getenv(client.EnvOverrideHost)
		opts = append(opts, client.WithTLSClientConfigFromEnv(), client.WithHostFromEnv())
	default:
		endpoint, err := readContext(name)
		if err != nil {
			return nil, &Error{BadHost, "context " + name, "choose another with DOCKER_CONTEXT, or set DOCKER_HOST or Options.Host", err}
		}
		host = endpoint.host
		if endpoint.certs != "" {
			in := func(name string) string { return filepath.Join(endpoint.certs, name) }
			opts = append(opts, client.WithTLSClientConfig(in("ca.pem"), in("cert.pem"), in("key.pem")))
		}
		opts = append(opts, client.WithHost(host))
	}
	if strings.HasPrefix(host, "ssh://") {
		return nil, &Error{BadHost, host, "forward the engine's socket with ssh -L, and name the socket", nil}
	}
	api, err := client.New(opts...)
	if err != nil {
		return nil, &Error{BadHost, host, "name it as in unix:///run/docker.sock or tcp://host:2376", err}
	}
	return api, nil
}

// contextName returns the docker context in use, as the docker command chooses
// it: "default" is the local socket.
func contextName() string {
	if name := os.Getenv("DOCKER_CONTEXT"); name != "" {
		return name
	}
	data, err := os.ReadFile(filepath.Join(configDir(), "config.json"))
	if err != nil {
		return "default"
	}
	var config struct{ CurrentContext string }
	if json.Unmarshal(data, &config) != nil {
		return "default"
	}
	return cmp.Or(config.CurrentContext, "default")
}

// configDir returns the directory of the docker command's configuration.
func configDir() string {
	if dir := os.Getenv("DOCKER_CONFIG"); dir != "" {
		return dir
	}
	home, _ := os.UserHomeDir()
	return filepath.Join(home, ".docker")
}

// An endpoint is where a docker context leads.
type endpoint struct {
	host  string
	certs string // directory of the client's TLS files; empty without TLS
}

// readContext reads the docker context of that name from the docker command's
// store, which names directories by the SHA-256 of the context's name.
func readContext(name string) (endpoint, error) {
	sum := sha256.Sum256([]byte(name))
	dir := hex.EncodeToString(sum[:])
	data, err := os.ReadFile(filepath.Join(configDir(), "contexts", "meta", dir, "meta.json"))
	if err != nil {
		return endpoint{}, err
	}
	var meta struct {
		Endpoints map[string]struct{ Host string }
	}
	if err := json.Unmarshal(data, &meta); err != nil {
		return endpoint{}, err
	}
	e := endpoint{host: meta.Endpoints["docker"].Host}
	if e.host == "" {
		return endpoint{}, errors.New("it has no docker endpoint")
	}
	certs := filepath.Join(configDir(), "contexts", "tls", dir, "docker")
	if _, err := os.Stat(filepath.Join(certs, "ca.pem")); err == nil {
		e.certs = certs
	} else if !errors.Is(err, fs.ErrNotExist) {
		return endpoint{}, err
	}
	return e, nil
}
