package llm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	_ "image/gif" // registers a decoder
	_ "image/jpeg"
	_ "image/png"
	"strings"
)

// Limits of an image, below those of the providers.
const (
	maxImage  = 5 << 20 // most bytes of an image
	maxSide   = 8000    // most pixels on a side
	maxPixels = 32_000_000
)

// Format detects the media type from the data: image/png, image/jpeg, image/gif, image/webp,
// or "" for any other.
func (i Image) Format() string {
	switch head := string(i.Data[:min(len(i.Data), 14)]); {
	case strings.HasPrefix(head, "\x89PNG\r\n\x1a\n"):
		return "image/png"
	case strings.HasPrefix(head, "\xff\xd8\xff"):
		return "image/jpeg"
	case strings.HasPrefix(head, "GIF87a"), strings.HasPrefix(head, "GIF89a"):
		return "image/gif"
	case strings.HasPrefix(head, "RIFF") && strings.HasSuffix(head, "WEBPVP"):
		return "image/webp"
	}
	return ""
}

// Check returns an error for an image that would make providers refuse the whole
// conversation.
func (i Image) Check() error {
	format := i.Format()
	switch {
	case format == "":
		return errors.New("it is not a PNG, JPEG, GIF or WebP")
	case len(i.Data) > maxImage:
		return fmt.Errorf("it has more than %d MiB", maxImage>>20)
	case format == "image/webp":
		return i.checkWebP()
	}
	size, _, err := image.DecodeConfig(bytes.NewReader(i.Data))
	if err == nil && (size.Width > maxSide || size.Height > maxSide || size.Width*size.Height > maxPixels) {
		return fmt.Errorf("it has %d×%d pixels, more than %d on a side or %d million in all", size.Width, size.Height, maxSide, maxPixels/1_000_000)
	}
	if err != nil {
		return errors.New("it is damaged")
	}
	return nil
}

// CheckWhole is Check for a complete image: it also refuses data that ends early.
func (i Image) CheckWhole() error {
	if err := i.Check(); err != nil || i.Format() == "image/webp" {
		return err
	}
	if _, _, err := image.Decode(bytes.NewReader(i.Data)); err != nil {
		return errors.New("it is damaged")
	}
	return nil
}

// checkWebP compares the RIFF chunk of a WebP image with the size of the data.
func (i Image) checkWebP() error {
	const header = 12
	if len(i.Data) < header+8 || int64(binary.LittleEndian.Uint32(i.Data[4:8]))+8 > int64(len(i.Data)) {
		return errors.New("it is damaged")
	}
	if form := string(i.Data[header : header+4]); form != "VP8 " && form != "VP8L" && form != "VP8X" {
		return fmt.Errorf("it has the unknown form %q", form)
	}
	return nil
}
