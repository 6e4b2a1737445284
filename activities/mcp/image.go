package mcp

import (
	"bytes"
	"fmt"
	"image"
	_ "image/gif" // the formats that providers take, to read their sizes
	_ "image/jpeg"
	_ "image/png"
	"net/http"
	"slices"

	"conclave/engine/llm"
)

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
