// Shows the chosen version of a figure.
document.querySelectorAll("figure").forEach((figure) => {
  figure.querySelectorAll("input").forEach((choice) => {
    choice.addEventListener("change", () => {
      figure.querySelectorAll(".version").forEach((version) => {
        version.hidden = version.dataset.version !== choice.value;
      });
    });
    // A browser may remember what was chosen before a page was loaded again.
    if (choice.checked) choice.dispatchEvent(new Event("change"));
  });
});
