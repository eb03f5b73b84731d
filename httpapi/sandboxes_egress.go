package httpapi

import (
	"net/http"
	"time"

	"github.com/sandbox-go/sandbox"
)

// An egressObject is an attempt to get out of a sandbox, as its owner sees it: without the
// addresses that names have.
type egressObject struct {
	Object        string                 `json:"object"`
	ID            string                 `json:"id"`
	SandboxID     string                 `json:"sandbox_id"`
	Protocol      sandbox.EgressProtocol `json:"protocol"`
	Host          string                 `json:"host"`
	Port          int                    `json:"port"`
	Verdict       sandbox.EgressVerdict  `json:"verdict"`
	Rule          string                 `json:"rule,omitempty"`
	Reason        string                 `json:"reason,omitempty"`
	BytesSent     int64                  `json:"bytes_sent"`
	BytesReceived int64                  `json:"bytes_received"`
	StartedAt     time.Time              `json:"started_at"`
	FinishedAt    *time.Time             `json:"finished_at"`
}

// An attempt is what a page of a list is cut of.
type attempt struct{ sandbox.EgressAttempt }

func (a attempt) ID() string { return a.EgressAttempt.ID }

func (a attempt) describe() egressObject {
	object := egressObject{
		Object: "egress", ID: a.ID(), SandboxID: a.SandboxID,
		Protocol: a.Protocol, Host: a.Host, Port: a.Port,
		Verdict: a.Verdict, Rule: a.Rule, Reason: a.Reason,
		BytesSent: a.Sent, BytesReceived: a.Received,
		StartedAt: a.StartedAt.UTC(),
	}
	if !a.EndedAt.IsZero() {
		object.FinishedAt = new(a.EndedAt.UTC())
	}
	return object
}

// listEgress is GET /v1/sandboxes/{id}/egress.
func listEgress(c *call) error {
	p, err := c.page()
	if err != nil {
		return err
	}
	sb, err := c.sandbox()
	if err != nil {
		return err
	}
	var all []attempt
	for _, a := range sb.Egress() {
		all = append(all, attempt{a})
	}
	attempts, more, err := cut(p, all)
	if err != nil {
		return err
	}
	data := []egressObject{}
	for _, a := range attempts {
		data = append(data, a.describe())
	}
	c.reply(http.StatusOK, list[egressObject]{Object: "list", Data: data, HasMore: more})
	return nil
}
