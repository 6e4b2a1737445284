package tools

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"conclave/engine/text"
)

// Limits on the output of a command that is shown and stored, in bytes.
const (
	shownHead = 16 << 10
	shownTail = 16 << 10
	maxStored = 16 << 20
)

// capture records the output of a command. Long output is written to a file outside the workspace,
// where the command's own searches do not find it.
type capture struct {
	spool string            // directory of the file
	mask  *strings.Replacer // replaces host paths

	mu     sync.Mutex
	head   []byte // all output, as long as it can be shown
	tail   []byte // the end of the output, longer than the part shown
	total  int64
	stored int64
	file   *os.File // set once the output is too long to be shown
	fault  error    // why the file is incomplete
}

// Write never fails, because a command must not depend on whether its output can be stored.
func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.appendOutput(p)
	return len(p), nil
}

func (c *capture) appendOutput(p []byte) {
	c.total += int64(len(p))
	if c.total <= shownHead+shownTail {
		c.head = append(c.head, p...)
	} else {
		c.storeOutput(p)
	}
	if c.tail = append(c.tail, p...); len(c.tail) > 4*shownTail {
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-2*shownTail:]...)
	}
}

// storeOutput appends to the file, whose content starts with head.
func (c *capture) storeOutput(p []byte) {
	if c.file == nil && c.fault == nil {
		if c.file, c.fault = os.CreateTemp(c.spool, "output-*"); c.fault == nil {
			c.appendFile(c.head)
		}
	}
	if c.file != nil && c.fault == nil {
		c.appendFile(p)
	}
}

func (c *capture) appendFile(p []byte) {
	p = p[:min(int64(len(p)), maxStored-c.stored)]
	n, err := c.file.Write(p)
	c.stored += int64(n)
	c.fault = err
}

func (c *capture) close() {
	if c.file != nil {
		_ = c.file.Close()
		_ = os.Remove(c.file.Name())
	}
}

// showOutput formats the output for the model. It calls store to copy long output into the workspace;
// store returns the copy's name.
func (c *capture) showOutput(store func(*os.File) (string, error)) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.total <= shownHead+shownTail {
		output := sanitize(c.mask.Replace(string(c.head)))
		if strings.TrimSpace(output) == "" {
			return "; no output"
		}
		return "; output:\n" + output
	}
	// Replace host paths before cutting, because a cut could leave part of one.
	head, _ := text.Head(c.mask.Replace(string(c.head)), shownHead)
	tail := c.mask.Replace(string(c.tail))
	tail = fromLine(tail[max(0, len(tail)-shownTail):])
	return fmt.Sprintf("; output, the beginning and the end:\n%s\n[… %s are not shown; %s …]\n%s",
		sanitize(head), text.Size(c.total-int64(len(head)+len(tail))), c.describeFile(store), sanitize(tail))
}

func (c *capture) describeFile(store func(*os.File) (string, error)) string {
	if c.fault != nil || c.file == nil {
		return "they could not be kept"
	}
	name, err := store(c.file)
	switch {
	case err != nil:
		return fmt.Sprintf("they could not be kept: %v", err)
	case c.stored < c.total:
		return fmt.Sprintf("the first %s of the whole are in %s, which is not part of an answer", text.Size(c.stored), name)
	default:
		return fmt.Sprintf("the whole is in %s, which is not part of an answer", name)
	}
}

// fromLine removes the beginning of p up to the next line if that is near, and otherwise up to the
// next character.
func fromLine(p string) string {
	const near = 1 << 10
	if i := strings.IndexByte(p[:min(near, len(p))], '\n'); i >= 0 {
		return p[i+1:]
	}
	for len(p) > 0 && !utf8.RuneStart(p[0]) {
		p = p[1:]
	}
	return p
}

// sanitize removes terminal sequences. Of an overwritten line, such as a progress bar, it keeps the
// last state.
func sanitize(output string) string {
	output = ansi.Strip(strings.ToValidUTF8(output, "\uFFFD"))
	lines := strings.Split(strings.ReplaceAll(output, "\r\n", "\n"), "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		lines[i] = line[strings.LastIndexByte(line, '\r')+1:]
	}
	return text.Sanitize(strings.Join(lines, "\n"))
}

const (
	// outputDir is the directory of the workspace for complete long outputs. It is not part of answers.
	outputDir = "command-output"

	// maxOutputs bounds the number of outputs in outputDir; new ones replace the oldest.
	maxOutputs = 20
)

type outputs struct {
	files *fileTools
	spool string            // directory of running commands' outputs
	mask  *strings.Replacer // replaces host paths
	last  int               // number of the newest output
}

// keepOutput copies an output into the workspace, without following links, and returns its path there.
func (o *outputs) keepOutput(from *os.File) (string, error) {
	data, err := os.ReadFile(from.Name())
	if err != nil {
		return "", err
	}
	const form = outputDir + "/%03d.txt"
	name, number, err := o.files.putNew(form, o.last+1, o.mask.Replace(string(data)))
	o.last = number
	if err != nil {
		return "", err
	}
	_ = o.files.root.Remove(fmt.Sprintf(form, number-maxOutputs)) // the agent may have removed it
	return name, nil
}

func (f *fileTools) putNew(form string, first int, content string) (name string, number int, err error) {
	for number = first; ; number++ {
		name = fmt.Sprintf(form, number)
		if _, err := f.root.Lstat(name); errors.Is(err, fs.ErrNotExist) || number >= maxFiles {
			break
		}
	}
	target, err := f.writablePath(name)
	if err == nil {
		err = f.putFile(target, strings.NewReader(content), 0o644)
	}
	return name, number, err
}

// shortenResult removes the middle of a long result from a server, and saves the complete result in the
// workspace.
func (f *fileTools) shortenResult(tool, result string) string {
	if len(result) <= maxOutput {
		return result
	}
	saved, cut := text.Head(result, maxFile)
	where := "the whole of it"
	if cut {
		where = "its first " + text.Size(int64(len(saved)))
	}
	name, _, err := f.putNew("tool-results/"+tool+"-%d.txt", 1, saved)
	if err == nil {
		where += " is in " + name
	} else {
		where += fmt.Sprintf(" could not be kept in the workspace (%v)", err)
	}
	head, _ := text.Head(result, maxOutput*2/3)
	notice := fmt.Sprintf("\n\n[… the middle of %s not shown; %s …]\n\n", text.Size(int64(len(result))), where)
	return head + notice + text.Tail(result, maxOutput-len(head)-len(notice))
}
