package docker

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/client"
	"github.com/sandbox-go/sandbox/backend"
)

// The labels of what this package makes on an engine. A container and its
// volume carry labelOwner and labelID; the agent's volume carries labelAgent.
const (
	labelPrefix   = "io.github.sandbox-go."
	labelOwner    = labelPrefix + "owner"
	labelID       = labelPrefix + "id"
	labelCreated  = labelPrefix + "created"  // Unix seconds
	labelDeadline = labelPrefix + "deadline" // Unix seconds; absent without end
	labelConfig   = labelPrefix + "config"   // the backend.Config as JSON
	labelVolume   = labelPrefix + "volume"   // the name of the sandbox's volume, which nothing else has
	labelAgent    = labelPrefix + "agent"    // the SHA-256 of the program
)

// ownedBy is the filter for what carries the owner's label.
func ownedBy(owner string) client.Filters {
	return client.Filters{}.Add("label", labelOwner+"="+owner)
}

// containerLabels returns the labels of the container of cfg. The user's cannot
// replace ours, nor add to them: by ours it is decided what is removed.
func containerLabels(opts *Options, cfg *backend.Config, volume string, now time.Time) (map[string]string, error) {
	config, err := json.Marshal(cfg)
	if err != nil {
		return nil, fmt.Errorf("docker: keep the sandbox's config: %w", err)
	}
	labels := make(map[string]string)
	for _, given := range []map[string]string{opts.Labels, cfg.Labels} {
		for k, v := range given {
			if !strings.HasPrefix(k, labelPrefix) {
				labels[k] = v
			}
		}
	}
	labels[labelOwner] = opts.Owner
	labels[labelID] = cfg.ID
	labels[labelCreated] = strconv.FormatInt(now.Unix(), 10)
	labels[labelConfig] = string(config)
	labels[labelVolume] = volume
	if cfg.Lifetime > 0 {
		labels[labelDeadline] = strconv.FormatInt(now.Add(cfg.Lifetime).Unix(), 10)
	}
	return labels, nil
}

// labelTime reads a label that is a time; zero when it is absent or malformed.
func labelTime(labels map[string]string, key string) time.Time {
	sec, err := strconv.ParseInt(labels[key], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(sec, 0)
}

// expired reports whether the deadline in labels has passed.
func expired(labels map[string]string, now time.Time) bool {
	deadline := labelTime(labels, labelDeadline)
	return !deadline.IsZero() && !now.Before(deadline)
}
