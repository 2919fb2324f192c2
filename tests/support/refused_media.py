"""Media that OpenAI refuses, each with the problem that the error names."""

from __future__ import annotations

from chatmemory import ImageContent, PdfFileContent

__all__ = ["OPENAI_REFUSES"]

OPENAI_REFUSES = [
    *(
        (
            ImageContent(url),
            f"OpenAI takes an image from http and https only, but the URL is {url!r}",
        )
        for url in ("gs://x/a.png", "file:///a.png", "a/b.png", "http:///a.png", "data:image/svg+xml,x")
    ),
    (ImageContent(""), "OpenAI needs the URL or the data of an image"),
    (
        ImageContent(base64_data="aGk=", mime_type="image/bmp"),
        "OpenAI takes images of image/jpeg, image/png, image/gif, image/webp, but the MIME type is 'image/bmp'",
    ),
    (
        ImageContent("data:image/bmp;base64,aGk="),
        "OpenAI takes images of image/jpeg, image/png, image/gif, image/webp, but the MIME type is 'image/bmp'",
    ),
    (
        PdfFileContent(base64_data="aGk=", mime_type="text/plain"),
        "OpenAI takes PDF files of application/pdf, but the MIME type is 'text/plain'",
    ),
    *(
        (image, "OpenAI takes the data of an image as Base64 only")
        for image in (
            ImageContent(base64_data="not Base64", mime_type="image/png"),
            ImageContent("data:image/png;base64,aGk"),
        )
    ),
    (PdfFileContent(base64_data="aGk"), "OpenAI takes the data of a PDF file as Base64 only"),
    (
        PdfFileContent("data:text/plain;base64,aGk="),
        "OpenAI takes PDF files of application/pdf, but the MIME type is 'text/plain'",
    ),
]
