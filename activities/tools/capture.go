package tools

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"unicode/utf8"
)

// How much of a command's output is shown, and how much of it is kept.
const (
	shownHead = 16 << 10
	shownTail = 16 << 10
	maxKept   = 16 << 20
)

// capture takes in the output of a command, standard output and standard error
// in the order in which they came. What is longer than what can be shown goes to
// a file outside the workspace meanwhile: a command that searches the workspace
// does not find its own output there.
type capture struct {
	spool string // where the file is made
	hide  hider

	mu    sync.Mutex
	early []byte // the beginning, all of it while it can be shown
	tail  []byte // the end, more than is shown of it
	total int64
	kept  int64
	file  *os.File // once there is more than can be shown
	fault error    // why not all is kept
}

// Write never fails: how much of the output is kept is not the command's affair.
func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.take(c.hide.next(p))
	return len(p), nil
}

// finish takes in what was held back.
func (c *capture) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.take(c.hide.rest())
}

func (c *capture) take(p []byte) {
	c.total += int64(len(p))
	if c.total <= shownHead+shownTail {
		c.early = append(c.early, p...)
	} else {
		c.keep(p)
	}
	if c.tail = append(c.tail, p...); len(c.tail) > 4*shownTail {
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-shownTail:]...)
	}
}

// keep writes to the file, which begins with what was taken in before.
func (c *capture) keep(p []byte) {
	if c.file == nil && c.fault == nil {
		if c.file, c.fault = os.CreateTemp(c.spool, "output-*"); c.fault == nil {
			c.write(c.early)
		}
	}
	if c.file != nil && c.fault == nil {
		c.write(p)
	}
}

func (c *capture) write(p []byte) {
	p = p[:min(int64(len(p)), maxKept-c.kept)]
	n, err := c.file.Write(p)
	c.kept += int64(n)
	c.fault = err
}

func (c *capture) close() {
	if c.file != nil {
		_ = c.file.Close()
		_ = os.Remove(c.file.Name())
	}
}

// show is the output as the model is told it, after how the command ended. Keep
// stores what is too long to be shown, and returns under which name.
func (c *capture) show(keep func(*os.File) (string, error)) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.total <= shownHead+shownTail {
		text := clean(c.early)
		if strings.TrimSpace(text) == "" {
			return "; no output"
		}
		return "; output:\n" + text
	}
	tail := c.tail[max(0, len(c.tail)-shownTail):]
	return fmt.Sprintf("; output, the beginning and the end:\n%s\n[… %s are not shown; %s …]\n%s",
		clean(upToRune(c.early[:min(shownHead, len(c.early))])), size(c.total-shownHead-int64(len(tail))), c.where(keep), clean(fromLine(tail)))
}

// where says where the whole output is.
func (c *capture) where(keep func(*os.File) (string, error)) string {
	if c.fault != nil || c.file == nil {
		return "they could not be kept"
	}
	name, err := keep(c.file)
	switch {
	case err != nil:
		return fmt.Sprintf("they could not be kept: %v", err)
	case c.kept < c.total:
		return fmt.Sprintf("the first %s of the whole are in %s, which is not part of an answer", size(c.kept), name)
	default:
		return fmt.Sprintf("the whole is in %s, which is not part of an answer", name)
	}
}

// upToRune drops the beginning of a character that was cut.
func upToRune(p []byte) []byte {
	for i := 1; i <= min(utf8.UTFMax-1, len(p)); i++ {
		if last := p[len(p)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return p[:len(p)-i]
			}
			break
		}
	}
	return p
}

// fromLine begins at a line, if one begins soon, else at a character.
func fromLine(p []byte) []byte {
	const soon = 1 << 10
	if i := bytes.IndexByte(p[:min(soon, len(p))], '\n'); i >= 0 {
		return p[i+1:]
	}
	for len(p) > 0 && !utf8.RuneStart(p[0]) {
		p = p[1:]
	}
	return p
}

// hider replaces paths of this machine in a stream.
type hider struct {
	pairs []string // a path and what is shown for it, and so on; the longer first
	held  []byte   // what could be the beginning of one
}

// next is what can be passed on after p has come.
func (h *hider) next(p []byte) []byte {
	all := append(h.held, p...)
	hold := 0
	for i := 0; i < len(h.pairs); i += 2 {
		for n := min(len(h.pairs[i])-1, len(all)); n > hold; n-- {
			if bytes.HasPrefix([]byte(h.pairs[i]), all[len(all)-n:]) {
				hold = n
			}
		}
	}
	h.held = bytes.Clone(all[len(all)-hold:])
	return h.replace(all[:len(all)-hold])
}

// rest is what was held back.
func (h *hider) rest() []byte {
	rest := h.replace(h.held)
	h.held = nil
	return rest
}

func (h *hider) replace(p []byte) []byte {
	if len(h.pairs) == 0 {
		return p
	}
	return []byte(strings.NewReplacer(h.pairs...).Replace(string(p)))
}
