package tools

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	_ "image/gif"  // decodes GIF
	_ "image/jpeg" // decodes JPEG
	_ "image/png"  // decodes PNG
	"io"
	"net/http"
	"slices"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// Limits of an image that is shown, below those of the providers: one that they
// refuse would end the step.
const (
	maxImage  = 5 << 20 // bytes
	maxSide   = 8000    // pixels
	maxPixels = 32 << 20
)

// mediaType is what kind of image a file begins as; empty for none that can be
// shown.
func mediaType(head []byte) string {
	kind := http.DetectContentType(head)
	if slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, kind) {
		return kind
	}
	return ""
}

// show shows an image. What is none after all, or too large, is said.
func (f *Files) show(name, kind string, in *bufio.Reader) (loop.Output, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxImage+1))
	if err != nil {
		return loop.Output{}, explain(name, err)
	}
	say := func(format string, args ...any) (loop.Output, error) {
		return loop.Output{Text: fmt.Sprintf("[%s "+format+"]", append([]any{quote(name)}, args...)...)}, nil
	}
	if len(data) > maxImage {
		return say("is an image of more than %s; make a smaller one to look at it", size(maxImage))
	}
	width, height, err := dimensions(kind, data)
	switch {
	case err != nil:
		return say("begins like an image (%s) and is none that can be shown: %v", kind, err)
	case width > maxSide || height > maxSide || width*height > maxPixels:
		return say("is an image of %d x %d pixels; make a smaller one, of at most %d on a side, to look at it", width, height, maxSide)
	case f.images >= maxImages:
		return say("is an image; the %d that can be shown in one turn have been", maxImages)
	}
	f.images++
	out, err := say("is an image (%s, %d x %d pixels, %s); it is shown below", kind, width, height, size(int64(len(data))))
	out.Images = []llm.Image{{MediaType: kind, Data: data}}
	return out, err
}

// dimensions are those of an image that is whole.
func dimensions(kind string, data []byte) (width, height int, err error) {
	if kind == "image/webp" {
		return 0, 0, wholeWebP(data)
	}
	config, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return 0, 0, err
	}
	width, height = config.Width, config.Height
	if width > maxSide || height > maxSide || width*height > maxPixels {
		return width, height, nil // too large to be decoded
	}
	_, _, err = image.Decode(bytes.NewReader(data))
	return width, height, err
}

// wholeWebP checks the frame of a WebP file: a RIFF chunk of the file's size.
func wholeWebP(data []byte) error {
	const header = 12
	if len(data) < header+8 || int64(binary.LittleEndian.Uint32(data[4:8]))+8 > int64(len(data)) {
		return io.ErrUnexpectedEOF
	}
	if form := string(data[header : header+4]); form != "VP8 " && form != "VP8L" && form != "VP8X" {
		return fmt.Errorf("unknown form %q", form)
	}
	return nil
}
