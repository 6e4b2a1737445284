package mcp

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"conclave/engine/excerpt"
	"conclave/engine/llm"
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
func plainLine(text string) string {
	return excerpt.Marked(strings.Join(strings.Fields(plain(text)), " "), 500)
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
