package page

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"

	"conclave/engine/llm"
)

// The width of a thumbnail in pixels, and its JPEG quality.
const (
	smallWidth   = 480
	smallQuality = 70
)

// thumbnail returns a small JPEG of a picture. It refuses bytes that are not a complete picture.
func thumbnail(data []byte) ([]byte, bool) {
	if len(data) == 0 || (llm.Image{Data: data}).CheckWhole() != nil {
		return nil, false
	}
	picture, _, err := image.Decode(bytes.NewReader(data))
	if err != nil { // such as a WebP, for which there is no decoder
		return data, len(data) <= maxImage
	}
	var out bytes.Buffer
	if jpeg.Encode(&out, shrunk(picture), &jpeg.Options{Quality: smallQuality}) != nil {
		return nil, false
	}
	return out.Bytes(), true
}

// shrunk averages the pixels of a picture down to the width of a thumbnail.
func shrunk(picture image.Image) image.Image {
	size := picture.Bounds()
	if size.Dx() <= smallWidth {
		return picture
	}
	width, height := smallWidth, max(1, size.Dy()*smallWidth/size.Dx())
	small := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			small.Set(x, y, average(picture, image.Rect(
				size.Min.X+x*size.Dx()/width, size.Min.Y+y*size.Dy()/height,
				size.Min.X+(x+1)*size.Dx()/width, size.Min.Y+max((y+1)*size.Dy()/height, y*size.Dy()/height+1))))
		}
	}
	return small
}

// average returns the average color of a part of a picture.
func average(picture image.Image, part image.Rectangle) color.Color {
	var r, g, b, n uint64
	for y := part.Min.Y; y < part.Max.Y; y++ {
		for x := part.Min.X; x < part.Max.X; x++ {
			cr, cg, cb, _ := picture.At(x, y).RGBA()
			r, g, b, n = r+uint64(cr), g+uint64(cg), b+uint64(cb), n+1
		}
	}
	if n == 0 {
		return color.White
	}
	return color.RGBA64{uint16(r / n), uint16(g / n), uint16(b / n), 0xffff}
}
