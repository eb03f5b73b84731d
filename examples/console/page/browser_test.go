package page_test

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience is how long the page may take for anything.
const patience = 20 * time.Second

// A tab is a page in a headless browser, used as a person uses it.
type tab struct {
	t        *testing.T
	ctx      context.Context
	messages chan string // warnings, errors and violations of the policy
}

// openTab starts a browser that ends with the test. Without Chromium the test is skipped.
func openTab(t *testing.T) *tab {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium on the PATH")
	}
	// The browser's profile is a new directory, and is removed with it.
	ctx, stop := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(path),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.WindowSize(1280, 800),
	)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx, messages: make(chan string, 100)}
	p.do(chromedp.EmulateViewport(1280, 800)) // starts it
	heard := make(chan struct{})
	messages := chromedp.Console(ctx)
	go func() {
		defer close(heard)
		defer close(p.messages)
		for m, err := range messages {
			if err != nil || m.Text == lastWord {
				return
			}
			switch m.Type {
			case chromedp.ConsoleWarning, chromedp.ConsoleError, chromedp.ConsoleException:
				p.messages <- fmt.Sprintf("%s: %s (%s)", m.Type, m.Text, m.URL)
			}
		}
	}()
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Errorf("close the browser: %v", err)
		}
		<-heard
	})
	return p
}

// lastWord ends the listening to the console.
const lastWord = "the test is over"

// quiet checks that the page has complained about nothing, and no more is listened to.
func (p *tab) quiet(ignored func(string) bool) {
	p.t.Helper()
	p.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("console.info(%q)", lastWord)))
	for message := range p.messages {
		if !ignored(message) {
			p.t.Error(message)
		}
	}
}

// in returns the tab for a subtest.
func (p *tab) in(t *testing.T) *tab { return &tab{t, p.ctx, p.messages} }

func (p *tab) do(a chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, a); err != nil {
		p.t.Fatal(err)
	}
}

// press presses keys, or types a text. As with a keyboard, and unlike with chromedp's
// KeyEvent, a key that the page takes for itself types nothing.
func (p *tab) press(keys string, modifiers ...chromedp.Modifier) {
	p.t.Helper()
	for _, key := range keys {
		events := kb.Encode(key)
		down, up := *events[0], *events[len(events)-1]
		chromedp.KeyModifiers(modifiers...)(&down)
		if len(events) == 3 && !slices.Contains(modifiers, chromedp.ModifierCtrl) {
			down.Text = events[1].Text
		}
		for _, event := range []input.DispatchKeyEventParams{down, up} {
			if _, err := chromedp.Call(p.ctx, input.DispatchKeyEvent, event); err != nil {
				p.t.Fatal(err)
			}
		}
	}
}

// eval returns what a JavaScript expression gives as text.
func (p *tab) eval(expression string) string {
	p.t.Helper()
	got, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return got
}

// wait waits until an expression gives a text that contains want. Package chromedp's Poll
// would need unsafe-eval in the page's policy.
func (p *tab) wait(expression, want string) {
	p.t.Helper()
	var got string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if got = p.eval(expression); strings.Contains(got, want) {
			return
		}
	}
	p.t.Fatalf("%s is %q, not %q", expression, got, want)
}

// text returns an expression for the text of the shown element of a selector.
func text(selector string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(%q)].find((e) => e.checkVisibility())?.textContent`, selector)
}

// focus is an expression for what has the focus: its label, name or text.
const focus = `((e) => e.ariaLabel || e.name || e.textContent)(document.activeElement)`

// tabTo presses Tab until what is named has the focus.
func (p *tab) tabTo(name string) {
	p.t.Helper()
	for range 40 {
		if p.eval(focus) == name {
			return
		}
		p.press("\t")
	}
	p.t.Fatalf("Tab does not lead to %q", name)
}
