package hall

import (
	"encoding/json"
	"fmt"
	"strings"
)

// PrintJSON prints a value on stdout: indented for --json, on one line for
// --automation.
func (c *CLI) PrintJSON(v any) error {
	var data []byte
	var err error
	if c.Automation {
		data, err = json.Marshal(v)
	} else {
		data, err = json.MarshalIndent(v, "", "  ")
	}
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	return c.Print(string(EscapeControls(data)) + "\n")
}

// Print prints text on stdout. A failed print is exit code 2: the command did its
// work, but its output is incomplete.
func (c *CLI) Print(text string) error {
	_, err := fmt.Fprint(c.Stdout, text)
	return PrintError(err)
}

// PrintError gives a failed print its exit code; nil stays nil.
func PrintError(err error) error {
	if err == nil {
		return nil
	}
	return Exitf(ExitNoAnswer, "print the output: %w", err)
}

// EscapeControls escapes in JSON the C1 control characters, which JSON permits in
// strings and terminals obey.
func EscapeControls(data []byte) []byte {
	var b strings.Builder
	for _, r := range string(data) {
		if 0x7f <= r && r <= 0x9f {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return []byte(b.String())
}

// TrimLines removes the spaces at the ends of lines that a tabwriter leaves there.
func TrimLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}
