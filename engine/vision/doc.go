// Package vision turns pictures into rows of a text model's width. A projector file
// (mmproj) holds an image tower and a projection. [Open] binds its tensors,
// [Tower.Prepare] decodes a picture and cuts it into tiles of normalised pixels,
// and an [Encoder] runs the tower on a device.
//
//	t, err := vision.Open(file)
//	pic, err := t.Prepare(data, vision.Limits{})
//	rows, err := encoder.Encode(ctx, pic.Tiles[0])
//
// Each family of projectors has its own source file, which defines how pictures
// are resized, how the blocks are built, and which text surrounds a picture in
// the prompt. Code that families share is in vit.go.
package vision
