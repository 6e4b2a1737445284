package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Keys passes each key that a person types to press at once and without showing it, until stop is called.
// Ctrl-C and Ctrl-Z keep their meaning. It does nothing unless a display redraws a block on the person's
// terminal. press gets a function that asks a question, whose answer is a line; a line without an end
// when stop is called is empty.
func (c *CLI) Keys(d Display, press func(key string, ask func(question string) string)) (stop func()) {
	b, redraws := d.(*board)
	if !redraws || !c.CanConfirm() || !hasKeys(c.Stdin.(*os.File)) {
		return func() {}
	}
	tty := c.Stdin.(*os.File)
	b.Note("? lists the keys")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			setKeys(tty, true)
			if key := readTyped(tty); key != "" {
				press(key, func(question string) string { return b.ask(ctx, tty, question) })
			}
		}
		setKeys(tty, false)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// ask asks a question below the block, which stays where it is. The next one is drawn below the answer.
func (b *board) ask(ctx context.Context, tty *os.File, question string) (answer string) {
	b.setAsking(true)
	defer b.setAsking(false)
	setKeys(tty, false)
	fmt.Fprint(b.screen.out, question)
	for answer == "" && ctx.Err() == nil {
		answer = readTyped(tty)
	}
	return strings.TrimSpace(answer)
}

func (b *board) setAsking(asking bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asking, b.screen.shown = asking, nil
}

// OpenBrowser opens an address in $BROWSER, or else in the system's browser.
func OpenBrowser(address string) error {
	program := []string{"xdg-open"}
	switch named := strings.Fields(os.Getenv("BROWSER")); {
	case len(named) > 0:
		program = named
	case runtime.GOOS == "darwin":
		program = []string{"open"}
	case os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "":
		return fmt.Errorf("open %s in a browser: there is no screen for one here", address)
	}
	cmd := exec.Command(program[0], append(program[1:], address)...) //nolint:gosec // the person's own browser
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("open %s in a browser: %w; $BROWSER names one", address, err)
	}
	go func() { _ = cmd.Wait() }()
	return nil
}

// keyPause is how long readTyped waits for a key.
const keyPause = 100 * time.Millisecond
