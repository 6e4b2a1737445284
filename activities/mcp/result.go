package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	_ "image/gif" // the formats that providers take, to read their sizes
	_ "image/jpeg"
	_ "image/png"
	"io/fs"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"conclave/engine/llm"
	"conclave/engine/text"
)

// maxLeaves is how many values of a structured result are looked for in its text.
const maxLeaves = 200

// output is what a model is told of a result, before it is bounded.
type output struct {
	parts  []string
	images []llm.Image
}

func (o *output) add(format string, args ...any) {
	o.parts = append(o.parts, fmt.Sprintf(format, args...))
}

func (o *output) text() string { return strings.Join(o.parts, "\n") }

// read turns a result into what a model is told.
func read(result *sdk.CallToolResult) *output {
	o := &output{}
	for _, content := range result.Content {
		o.content(content)
	}
	if s := result.StructuredContent; s != nil && !said(result.Content, s) {
		if text, err := json.Marshal(s); err == nil {
			o.parts = append(o.parts, string(text))
		}
	}
	if result.NeedsInput() {
		o.add("the tool asks for input from a person; there is nobody to ask")
		result.IsError = true
	}
	if len(o.parts) == 0 {
		o.add("(the tool returned nothing)")
	}
	if result.IsError {
		o.parts[0] = "error: " + o.parts[0]
	}
	return o
}

func (o *output) content(content sdk.Content) {
	switch c := content.(type) {
	case *sdk.TextContent:
		o.parts = append(o.parts, strings.ToValidUTF8(c.Text, "\uFFFD"))
	case *sdk.ImageContent:
		o.shown(c.Data, c.MIMEType)
	case *sdk.AudioContent:
		o.add("[audio (%s, %s) is not played]", plainLine(c.MIMEType), bytesOf(len(c.Data)))
	case *sdk.ResourceLink:
		about := []string{plainLine(c.Name)}
		for _, more := range []string{c.MIMEType, c.Description} {
			if more != "" {
				about = append(about, plainLine(more))
			}
		}
		o.add("[link to a resource: %s (%s)]", plainLine(c.URI), strings.Join(about, "; "))
	case *sdk.EmbeddedResource:
		o.resource(c.Resource)
	default:
		o.add("[content of type %T is not shown]", content)
	}
}

func (o *output) resource(r *sdk.ResourceContents) {
	switch {
	case r == nil:
		o.add("[an empty resource]")
	case r.Blob != nil:
		o.add("[resource %s (%s, %s) is not shown]", plainLine(r.URI), plainLine(r.MIMEType), bytesOf(len(r.Blob)))
	default:
		o.add("[resource %s]\n%s", plainLine(r.URI), strings.ToValidUTF8(r.Text, "\uFFFD"))
	}
}

// said says whether the text of a result has what its structured part has.
func said(contents []sdk.Content, structured any) bool {
	var text strings.Builder
	for _, content := range contents {
		t, ok := content.(*sdk.TextContent)
		if !ok {
			continue
		}
		var value any
		if json.Unmarshal([]byte(t.Text), &value) == nil && reflect.DeepEqual(value, structured) {
			return true
		}
		text.WriteString(t.Text)
		text.WriteByte('\n')
	}
	found := leaves(structured, nil)
	if len(found) == 0 || len(found) > maxLeaves {
		return false
	}
	for _, leaf := range found {
		if !strings.Contains(text.String(), leaf) {
			return false
		}
	}
	return true
}

// leaves adds the texts and numbers of a structured result to those found, and
// stops when they are too many.
func leaves(value any, found []string) []string {
	if len(found) > maxLeaves {
		return found
	}
	switch v := value.(type) {
	case string:
		found = append(found, v)
	case float64:
		if text, err := json.Marshal(v); err == nil {
			found = append(found, string(text))
		}
	case []any:
		for _, item := range v {
			found = leaves(item, found)
		}
	case map[string]any:
		for _, item := range v {
			found = leaves(item, found)
		}
	}
	return found
}

// plainLine is a server's short text, on one line and bounded.
func plainLine(s string) string {
	return text.Truncate(text.OneLine(text.Terminal(s)), 500)
}

func bytesOf(n int) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

const (
	maxImages = 4       // pictures of one call
	maxImage  = 5 << 20 // bytes of one
	maxSide   = 8000    // pixels; providers refuse the whole conversation for more
)

// shown adds a picture to the output if a model can be shown it, else says why
// not. A picture that a provider refuses would end the step, so that its own
// bytes are asked what it is, not the server.
func (o *output) shown(data []byte, claimed string) {
	format := http.DetectContentType(data)
	why := ""
	switch size, _, err := image.DecodeConfig(bytes.NewReader(data)); {
	case !slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, format):
		why = "it is no PNG, JPEG, GIF or WebP"
	case len(data) > maxImage:
		why = fmt.Sprintf("it has more than %d MiB", maxImage>>20)
	case len(o.images) == maxImages:
		why = fmt.Sprintf("a call can show %d", maxImages)
	case err != nil && format != "image/webp":
		why = "it is damaged"
	case size.Width > maxSide || size.Height > maxSide:
		why = fmt.Sprintf("it has %d×%d pixels, more than %d on a side", size.Width, size.Height, maxSide)
	default:
		o.images = append(o.images, llm.Image{MediaType: format, Data: data})
		o.add("[image %d: %s, %s]", len(o.images), format, bytesOf(len(data)))
		return
	}
	o.add("[an image (%s, %s) is not shown: %s]", plainLine(claimed), bytesOf(len(data)), why)
}

const (
	maxText = 48 << 10 // bytes of a result that are shown
	maxHead = 32 << 10 // of them, at most, from the beginning when not all is shown
	maxKept = 8 << 20  // bytes of a result that are kept

	// keptIn is the workspace's directory for results that are not shown whole.
	keptIn = "tool-results"

	maxNumber = 10_000 // files of one tool
)

// bounded is a text as a model is shown it. One that is too long is kept in a
// file of the workspace.
func bounded(workspace, tool, result string) string {
	if len(result) <= maxText {
		return result
	}
	kept, cut := text.Head(result, maxKept)
	where := "the whole of it"
	if cut {
		where = fmt.Sprintf("its first %s", bytesOf(len(kept)))
	}
	name, err := keep(workspace, tool, kept)
	if err == nil {
		where += " is in " + name
	} else {
		where += fmt.Sprintf(" could not be kept in the workspace (%v)", err)
	}
	head, _ := text.Head(result, maxHead)
	notice := fmt.Sprintf("\n\n[… %s of %s not shown; %s …]\n\n", "the middle", bytesOf(len(result)), where)
	tail := result[len(result)-(maxText-maxHead-len(notice)):]
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return head + notice + tail
}

// keep writes a text to a new file, and returns its path in the workspace. What
// agents made there leads nowhere else.
func keep(workspace, tool, text string) (string, error) {
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if err := root.MkdirAll(keptIn, 0o755); err != nil {
		return "", err
	}
	for n := 1; n <= maxNumber; n++ {
		name := fmt.Sprintf("%s/%s-%d.txt", keptIn, tool, n)
		file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = file.WriteString(text)
		if err = errors.Join(err, file.Close()); err != nil {
			return "", errors.Join(err, root.Remove(name))
		}
		return name, nil
	}
	return "", fmt.Errorf("%s has too many files of this tool", keptIn)
}
