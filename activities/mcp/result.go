package mcp

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"conclave/engine/llm"
	"conclave/engine/text"
)

// maxLeaves bounds the number of values of a structured result that are searched for in its text.
const maxLeaves = 200

type output struct {
	parts  []string
	images []llm.Image
	failed bool
}

func (o *output) add(format string, args ...any) {
	o.parts = append(o.parts, fmt.Sprintf(format, args...))
}

func (o *output) text() string { return strings.Join(o.parts, "\n") }

func toOutput(result *sdk.CallToolResult) *output {
	o := &output{}
	for _, content := range result.Content {
		o.content(content)
	}
	if s := result.StructuredContent; s != nil && !repeats(result.Content, s) {
		if encoded, err := json.Marshal(s); err == nil {
			o.parts = append(o.parts, string(encoded))
		}
	}
	if result.NeedsInput() {
		o.add("the tool asks for input from a person; no person is available")
		result.IsError = true
	}
	if len(o.parts) == 0 {
		o.add("(the tool returned nothing)")
	}
	if o.failed = result.IsError; o.failed {
		o.parts[0] = "error: " + o.parts[0]
	}
	return o
}

func (o *output) content(content sdk.Content) {
	switch c := content.(type) {
	case *sdk.TextContent:
		o.parts = append(o.parts, strings.ToValidUTF8(c.Text, "\uFFFD"))
	case *sdk.ImageContent:
		o.image(c.Data, c.MIMEType)
	case *sdk.AudioContent:
		o.add("[audio (%s, %s) is not played]", label(c.MIMEType), size(len(c.Data)))
	case *sdk.ResourceLink:
		about := []string{label(c.Name)}
		for _, more := range []string{c.MIMEType, c.Description} {
			if more != "" {
				about = append(about, label(more))
			}
		}
		o.add("[link to a resource: %s (%s)]", label(c.URI), strings.Join(about, "; "))
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
		o.add("[resource %s (%s, %s) is not shown]", label(r.URI), label(r.MIMEType), size(len(r.Blob)))
	default:
		o.add("[resource %s]\n%s", label(r.URI), strings.ToValidUTF8(r.Text, "\uFFFD"))
	}
}

// maxImages bounds the number of images in the result of one call.
const maxImages = 4

// image adds an image, whose format it detects from the bytes, or the reason for omitting it.
func (o *output) image(data []byte, claimed string) {
	shown := llm.Image{Data: data}
	shown.MediaType = shown.Format()
	err := shown.Check()
	if err == nil && len(o.images) == maxImages {
		err = fmt.Errorf("a call can show %d", maxImages)
	}
	if err != nil {
		o.add("[an image (%s, %s) is not shown: %v]", label(claimed), size(len(data)), err)
		return
	}
	o.images = append(o.images, shown)
	o.add("[image %d: %s, %s]", len(o.images), shown.MediaType, size(len(data)))
}

// repeats reports whether the text of a result contains its structured part, either as JSON or as
// single values.
func repeats(contents []sdk.Content, structured any) bool {
	var all strings.Builder
	for _, content := range contents {
		t, ok := content.(*sdk.TextContent)
		if !ok {
			continue
		}
		var value any
		if json.Unmarshal([]byte(t.Text), &value) == nil && reflect.DeepEqual(value, structured) {
			return true
		}
		all.WriteString(t.Text)
		all.WriteByte('\n')
	}
	values := leaves(structured, nil)
	return len(values) > 0 && len(values) <= maxLeaves && !slices.ContainsFunc(values, func(leaf string) bool {
		return !strings.Contains(all.String(), leaf)
	})
}

// leaves appends the strings and numbers of a structured result to found, up to maxLeaves.
func leaves(value any, found []string) []string {
	if len(found) > maxLeaves {
		return found
	}
	switch v := value.(type) {
	case string:
		found = append(found, v)
	case float64:
		if encoded, err := json.Marshal(v); err == nil {
			found = append(found, string(encoded))
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

// label returns a short text from a server on one line of bounded length.
func label(s string) string {
	return text.Truncate(text.OneLine(text.Terminal(s)), 500)
}

func size(n int) string { return text.Size(int64(n)) }
