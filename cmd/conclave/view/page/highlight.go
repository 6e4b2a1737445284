package page

import (
	"bytes"
	"html"
	"html/template"
	"image"
	"image/color"
	"image/jpeg"
	"regexp"
	"strings"

	"conclave/engine/llm"
)

// The patterns match the comments, strings, numbers and words of most languages, one for
// each style of comments.
var (
	slashes = regexp.MustCompile("(?s)(//[^\n]*|/\\*.*?\\*/)|(\"(?:[^\"\\\\\n]|\\\\.)*\"|'(?:[^'\\\\\n]|\\\\.)*'|`[^`]*`)|\\b([0-9][0-9A-Za-z_.]*)\\b|\\b([A-Za-z_]+)\\b")
	hashes  = regexp.MustCompile("(?s)(#[^\n]*)|(\"(?:[^\"\\\\\n]|\\\\.)*\"|'(?:[^'\\\\\n]|\\\\.)*')|\\b([0-9][0-9A-Za-z_.]*)\\b|\\b([A-Za-z_]+)\\b")
)

// languages maps the extensions of source files to the pattern for their tokens.
var languages = func() map[string]*regexp.Regexp {
	m := map[string]*regexp.Regexp{}
	for _, e := range strings.Fields(".go .js .ts .jsx .tsx .c .h .cc .cpp .java .rs .kt .swift .css .proto .json .php .scala .cs") {
		m[e] = slashes
	}
	for _, e := range strings.Fields(".py .sh .bash .rb .yaml .yml .toml .pl .r .mk .tf") {
		m[e] = hashes
	}
	return m
}()

// keywords are the most common keywords of the languages.
var keywords = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`and as async await break case catch chan class const continue def default defer del do elif else
		end enum except export extends false final finally fn for from func function go goto if impl implements import in interface
		is lambda let local map match mod mut new nil none None not null or package pass private protected pub public raise range
		return self select static struct super switch then this throw trait true True False try type use var void while with yield`) {
		m[w] = true
	}
	return m
}()

func highlightSource(source, extension string) template.HTML {
	pattern := languages[extension]
	if pattern == nil {
		return template.HTML(html.EscapeString(source))
	}
	var b strings.Builder
	at := 0
	for _, m := range pattern.FindAllStringSubmatchIndex(source, -1) {
		class := ""
		switch word := source[m[0]:m[1]]; {
		case m[2] >= 0:
			class = "k-comment"
		case m[4] >= 0:
			class = "k-string"
		case m[6] >= 0:
			class = "k-number"
		case keywords[word]:
			class = "k-word"
		default:
			continue
		}
		b.WriteString(html.EscapeString(source[at:m[0]]))
		b.WriteString(`<span class="` + class + `">` + html.EscapeString(source[m[0]:m[1]]) + `</span>`)
		at = m[1]
	}
	b.WriteString(html.EscapeString(source[at:]))
	return template.HTML(b.String())
}

// The width of a thumbnail in pixels, and its JPEG quality.
const (
	smallWidth   = 480
	smallQuality = 70
)

// makeThumbnail returns a small JPEG of a picture. It refuses bytes that are not a complete picture.
func makeThumbnail(data []byte) ([]byte, bool) {
	if len(data) == 0 || (llm.Image{Data: data}).CheckWhole() != nil {
		return nil, false
	}
	picture, _, err := image.Decode(bytes.NewReader(data))
	if err != nil { // such as a WebP, for which there is no decoder
		return data, len(data) <= maxImage
	}
	var out bytes.Buffer
	if jpeg.Encode(&out, shrinkPicture(picture), &jpeg.Options{Quality: smallQuality}) != nil {
		return nil, false
	}
	return out.Bytes(), true
}

func shrinkPicture(picture image.Image) image.Image {
	size := picture.Bounds()
	if size.Dx() <= smallWidth {
		return picture
	}
	width, height := smallWidth, max(1, size.Dy()*smallWidth/size.Dx())
	small := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			small.Set(x, y, averageColor(picture, image.Rect(
				size.Min.X+x*size.Dx()/width, size.Min.Y+y*size.Dy()/height,
				size.Min.X+(x+1)*size.Dx()/width, size.Min.Y+max((y+1)*size.Dy()/height, y*size.Dy()/height+1))))
		}
	}
	return small
}

func averageColor(picture image.Image, part image.Rectangle) color.Color {
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
