package hall

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/term"

	"conclave/engine/text"
)

// CanConfirm reports whether messages go to a person who can answer a question.
func (c *CLI) CanConfirm() bool {
	return !c.Scripted() && isTerminal(c.Stdin) && isTerminal(c.Stderr)
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Confirm asks a question and reports whether the answer is yes. Any other answer is
// no. An interrupt returns context.Canceled.
func (c *CLI) Confirm(question string) (bool, error) {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(interrupts)
	fmt.Fprint(c.Stderr, text.Terminal(question)+" [y/N] ")

	type reply struct {
		line string
		err  error
	}
	replies := make(chan reply, 1)
	go func() { // a read cannot be interrupted; the process ends soon
		line, err := bufio.NewReader(c.Stdin).ReadString('\n')
		replies <- reply{line, err}
	}()
	select {
	case <-interrupts:
		fmt.Fprintln(c.Stderr)
		return false, context.Canceled
	case r := <-replies:
		if r.err != nil && !errors.Is(r.err, io.EOF) {
			return false, fmt.Errorf("read the answer: %w", r.err)
		}
		answer := strings.ToLower(strings.TrimSpace(r.line))
		return answer == "y" || answer == "yes", nil
	}
}
