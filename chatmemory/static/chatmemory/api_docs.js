"use strict";

// A file of its own, for a content security policy without 'unsafe-inline'. What differs from page to page is in the page.
const place = document.getElementById("swagger-ui");

SwaggerUIBundle({
  url: place.dataset.schema,
  domNode: place,
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  requestInterceptor(request) {
    const isRead = ["GET", "HEAD", undefined].includes(request.method);
    const isOwn = new URL(request.url, document.baseURI).origin === window.location.origin;
    if (!isRead && isOwn) {
      request.headers[place.dataset.csrfHeader] = place.dataset.csrfToken;
    }
    return request;
  },
  ...JSON.parse(document.getElementById("swagger-settings").textContent),
});
